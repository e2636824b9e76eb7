/* Pieces that every engine's create, prepare and destroy need alike. */
#include "engine.h"

#include <string.h>

void *cv_state_alloc(const cv_request *request, const char *engine, size_t bytes)
{
    const cv_machine *machine = request->machine;
    void *state = cv_alloc(&machine->memory, bytes);
    if (!state) {
        (void)cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: a plan of engine %s", engine);
        return NULL;
    }
    memset(state, 0, bytes);
    memcpy(state, &machine, sizeof machine);
    return state;
}

void cv_state_free(void *state)
{
    const cv_machine *machine;
    if (!state)
        return;
    memcpy(&machine, state, sizeof machine);
    cv_free(&machine->memory, state);
}

void cv_packed_weights(const convoy_problem *p, int64_t stride[4])
{
    stride[3] = 1;
    stride[2] = p->s;
    stride[1] = p->r * p->s;
    stride[0] = p->c / p->groups * p->r * p->s;
}
