#include "peers.h"

#include <errno.h>
#include <glob.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static bool find(glob_t *found)
{
    char pattern[4096];
    const char *folder = getenv("CONVOY_PEERS");
    if (folder && *folder) {
        snprintf(pattern, sizeof pattern, "%s/convoy-peer-*", folder);
    } else {
        const ssize_t length = readlink("/proc/self/exe", pattern, sizeof pattern - 32);
        pattern[length > 0 ? length : 0] = 0;
        char *slash = strrchr(pattern, '/');
        if (!slash)
            return false;
        strcpy(slash, "/convoy-peer-*");
    }
    return glob(pattern, 0, NULL, found) == 0;
}

/* Starts a program with its standard output on a pipe, of which the reading end is returned; -1 when it cannot be
 * started. */
static int start(char *const argv[], pid_t *pid)
{
    int ends[2];
    posix_spawn_file_actions_t actions;
    if (pipe(ends) != 0)
        return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    const int error = posix_spawn(pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error == 0)
        return ends[0];
    close(ends[0]);
    errno = error;
    return -1;
}

static int run_one(char *path, const char *problem, int threads, double seconds, uint64_t seed,
                   void (*each)(void *, cJSON *), void *user)
{
    char text[4][48];
    snprintf(text[0], sizeof text[0], "%d", threads);
    snprintf(text[1], sizeof text[1], "%g", seconds);
    snprintf(text[2], sizeof text[2], "%llu", (unsigned long long)seed);
    char *argv[] = {path, (char *)(uintptr_t)problem, text[0], text[1], text[2], NULL};
    pid_t pid;
    const int in = start(argv, &pid);
    FILE *lines = in < 0 ? NULL : fdopen(in, "r");
    if (!lines)
        return cli_error("peer %s: %s: expected a program that runs", path, strerror(errno));
    char *line = NULL;
    size_t room = 0;
    bool good = true;
    while (getline(&line, &room, lines) > 0) {
        cJSON *object = cJSON_Parse(line);
        good = good && object;
        if (object)
            each(user, object);
    }
    free(line);
    fclose(lines);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!good || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return cli_error("peer %s on %s: it failed or printed what is no JSON: expected one object a line", path,
                         problem);
    return CLI_OK;
}

int peers_count(void)
{
    glob_t found;
    if (!find(&found))
        return 0;
    const int count = (int)found.gl_pathc;
    globfree(&found);
    return count;
}

int peers_run(const char *problem, int threads, double seconds, uint64_t seed, void (*each)(void *user, cJSON *line),
              void *user)
{
    glob_t found;
    if (!find(&found))
        return 0;
    int code = CLI_OK;
    const int count = (int)found.gl_pathc;
    for (int i = 0; i < count && code == CLI_OK; i++)
        code = run_one(found.gl_pathv[i], problem, threads, seconds, seed, each, user);
    globfree(&found);
    return code == CLI_OK ? count : -1;
}
