/* Peer programs: other libraries' convolutions, timed side by side. They are separate programs (bench/peers) that are
 * never linked with Convoy; each prints one JSON object a line. */
#ifndef CLI_PEERS_H
#define CLI_PEERS_H

#include "report.h"

/* How many programs convoy-peer-* there are next to the command, or in the folder that CONVOY_PEERS names. */
int peers_count(void);

/* Runs each of them on a problem and hands over its lines. each frees the object. Returns how many programs were found,
 * or -1 after a line on standard error. */
int peers_run(const char *problem, int threads, double seconds, uint64_t seed, void (*each)(void *user, cJSON *line),
              void *user);

#endif
