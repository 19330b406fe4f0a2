#include <runloop/runloop.h>
