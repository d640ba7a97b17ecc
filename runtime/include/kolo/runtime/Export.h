// Marks what libkolo_runtime.so exports; everything else in it is hidden.
#pragma once

#define KOLO_RUNTIME_API __attribute__((visibility("default")))
