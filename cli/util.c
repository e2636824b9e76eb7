/* Contexts, wisdom's place, memory and small texts. */
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The library's warnings, on standard error. CONVOY_LOG: off, warning (default), info. */
static void log_line(void *user, convoy_log_level level, const char *line)
{
    (void)user;
    const char *wanted = getenv("CONVOY_LOG");
    const bool info = wanted && strcmp(wanted, "info") == 0;
    if (wanted && strcmp(wanted, "off") == 0)
        return;
    if (level == CONVOY_LOG_WARNING)
        cli_warning("%s", line);
    else if (info)
        fprintf(stderr, "convoy: %s\n", line);
}

const char *cli_wisdom_path(const struct cli_options *o, char *text, size_t bytes)
{
    const char *path = o->wisdom ? o->wisdom : getenv("CONVOY_WISDOM");
    if (path && *path)
        return strcmp(path, "off") == 0 ? NULL : path;
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = -1;
    if (cache && *cache == '/') /* the XDG base directory specification: relative paths are to be ignored */
        length = snprintf(text, bytes, "%s/convoy/wisdom", cache);
    else if (home && *home == '/')
        length = snprintf(text, bytes, "%s/.cache/convoy/wisdom", home);
    return length > 0 && (size_t)length < bytes ? text : NULL;
}

int cli_make_folder(const char *path)
{
    char folder[4096];
    if (snprintf(folder, sizeof folder, "%s", path) >= (int)sizeof folder)
        return cli_error("%.100s...: expected a shorter path", path);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(folder, 0777) != 0 && errno != EEXIST)
            return cli_error("%s: the folder cannot be made: %s", folder, strerror(errno));
        *slash = '/';
    }
    return CLI_OK;
}

static bool named_engine_device(const char *name, convoy_device *device)
{
    const size_t length = strcspn(name, ":");
    const convoy_engine_info *e;
    for (int i = 0; (e = convoy_engine(i)); i++)
        if (strlen(e->name) == length && memcmp(e->name, name, length) == 0)
            return *device = e->device, true;
    return false;
}

static bool has_cuda_engine(void)
{
    const convoy_engine_info *e;
    for (int i = 0; (e = convoy_engine(i)); i++)
        if (e->device == CONVOY_CUDA)
            return true;
    return false;
}

/* A machine without a GPU or driver is nothing to talk about; a GPU that cannot be used is. What is wrong with the
 * options, the CPU's context will say too. */
static void tell_unusable_gpu(convoy_status status)
{
    const char *why = convoy_last_message();
    if (status != CONVOY_INVALID && !strstr(why, "no NVIDIA driver") && !strstr(why, "no NVIDIA GPU"))
        cli_warning("%s; going on with the CPU", why);
}

int cli_context(const struct cli_options *o, convoy_context **context)
{
    char path[4096];
    const char *wisdom = cli_wisdom_path(o, path, sizeof path);
    convoy_context_options c = {.device_index = o->device_index, .threads = o->threads, .isa = o->isa, .log = log_line};
    c.wisdom = wisdom ? wisdom : "off";
    if (wisdom && o->plan.effort == CONVOY_MEASURE &&
        cli_make_folder(wisdom) != CLI_OK) /* what is timed is remembered */
        return CLI_BAD;
    convoy_device named;
    if (o->device >= 0) {
        c.device = (convoy_device)o->device;
    } else if (o->plan.engine && named_engine_device(o->plan.engine, &named)) {
        c.device = named;
    } else if (has_cuda_engine() && !o->isa) {
        c.device = CONVOY_CUDA;
        const convoy_status status = convoy_context_create(&c, context);
        if (status == CONVOY_OK)
            return CLI_OK;
        tell_unusable_gpu(status);
        c.device = CONVOY_CPU;
    }
    const convoy_status status = convoy_context_create(&c, context);
    return status == CONVOY_OK ? CLI_OK : cli_failed(NULL, status);
}

/* The value of a "key: value" line of the context's description; "" without one. */
static const char *info_value(const convoy_context *context, const char *key)
{
    const size_t length = strlen(key);
    for (const char *line = convoy_context_info(context); line && *line;
         line = strchr(line, '\n'), line += line != NULL)
        if (strncmp(line, key, length) == 0 && line[length] == ':')
            return line + length + 1 + strspn(line + length + 1, " ");
    return "";
}

convoy_device cli_device(const convoy_context *context)
{
    return strncmp(info_value(context, "device"), "cuda", 4) == 0 ? CONVOY_CUDA : CONVOY_CPU;
}

int cli_threads(const convoy_context *context) { return atoi(info_value(context, "threads")); }

double cli_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Linux grants more than there is and kills later, so the machine's memory is looked at first. */
void *cli_alloc(double bytes, const char *what)
{
    const double most = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    void *memory = bytes <= most ? malloc(bytes >= 1 ? (size_t)bytes : 1) : NULL;
    if (!memory)
        cli_error("%s: %s: expected what fits into this machine's memory of %s", what, cli_bytes(bytes).s,
                  cli_bytes(most).s);
    return memory;
}

struct cli_text cli_bytes(double bytes)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    struct cli_text text;
    int i = 0;
    for (; bytes >= 1024 && i < 6; i++)
        bytes /= 1024;
    snprintf(text.s, sizeof text.s, i ? "%.1f %s" : "%.0f %s", bytes, unit[i]);
    return text;
}

struct cli_text cli_ms(double seconds)
{
    struct cli_text text;
    const double ms = 1e3 * seconds;
    snprintf(text.s, sizeof text.s, ms < 1 ? "%.4f ms" : ms < 100 ? "%.3g ms" : "%.0f ms", ms);
    return text;
}

struct cli_text cli_count(double count)
{
    struct cli_text text;
    const char *const unit = count >= 1e9 ? " G" : count >= 1e6 ? " M" : "";
    snprintf(text.s, sizeof text.s, *unit ? "%.1f%s" : "%.0f%s",
             count / (count >= 1e9   ? 1e9
                      : count >= 1e6 ? 1e6
                                     : 1),
             unit);
    return text;
}

void cli_quote(const char *word, char *text, size_t bytes)
{
    if (word[strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=:,./")])
        snprintf(text, bytes, "'%s'", word);
    else
        snprintf(text, bytes, "%s", word);
}
