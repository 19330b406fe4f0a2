/* The constants of the public headers. They live in C so that dlsym and foreign-function users find plain data. */
#include <runloop/runloop.h>

const char *const kRLDefaultMode = "kCFRunLoopDefaultMode";
const char *const kRLCommonModes = "kCFRunLoopCommonModes";
const RLTimeInterval kRLAbsoluteTimeIntervalSince1970 = 978307200.0;
