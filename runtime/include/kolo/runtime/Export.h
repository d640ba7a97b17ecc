// Marks what libkolo_runtime.so exports; everything else in it is hidden.
#ifndef KOLO_RUNTIME_EXPORT_H
#define KOLO_RUNTIME_EXPORT_H

#define KOLO_RUNTIME_API __attribute__((visibility("default")))

#endif
