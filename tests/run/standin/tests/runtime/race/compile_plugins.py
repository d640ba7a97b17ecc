#!/bin/sh
# In place of what compiles plugins.
