/* The version of all programs of this source tree. */
#ifndef RP_VERSION_H
#define RP_VERSION_H

#define RP_VERSION "0.1.0"

#endif
