/* SPDX-License-Identifier: MIT */
/* The constants of the public headers. They live in C so that dlsym and foreign-function users find plain data. */
#include <runloop/runloop.h>

const char *const kRLDefaultMode = "kCFRunLoopDefaultMode";
const char *const kRLCommonModes = "kCFRunLoopCommonModes";
const RLTimeInterval kRLAbsoluteTimeIntervalSince1970 = 978307200.0;

const char *const kRLSocketCommandKey = "Command";
const char *const kRLSocketNameKey = "Name";
const char *const kRLSocketValueKey = "Value";
const char *const kRLSocketResultKey = "Result";
const char *const kRLSocketErrorKey = "Error";
const char *const kRLSocketRegisterCommand = "Register";
const char *const kRLSocketRetrieveCommand = "Retrieve";
