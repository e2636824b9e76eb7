/* convoy wisdom show|merge FILE...|clear: the file that tuning fills. */
#include "report.h"

#include <stdio.h>
#include <string.h>

struct show {
    bool json;
    int code;
    char machine[512];
};

static void show_entry(void *user, const char *machine, const char *key, const char *value)
{
    struct show *to = user;
    if (to->code != CLI_OK)
        return;
    if (to->json) {
        cJSON *line = cJSON_CreateObject();
        cJSON_AddStringToObject(line, "machine", machine);
        cJSON_AddStringToObject(line, "key", key);
        cJSON_AddStringToObject(line, "value", value);
        to->code = json_line(line);
        return;
    }
    if (strncmp(to->machine, machine, sizeof to->machine - 1) != 0) {
        printf("%s\n", machine);
        snprintf(to->machine, sizeof to->machine, "%s", machine);
    }
    printf("  %s  ->  %s\n", key, value);
    to->code = cli_flush();
}

static int show(const struct cli_options *o, const char *path)
{
    struct show to = {.json = o->json};
    int damaged = 0;
    const convoy_status status = convoy_wisdom_each(path, show_entry, &to, &damaged);
    if (to.code == CLI_OK && status != CONVOY_OK)
        return cli_failed(NULL, status);
    if (to.code == CLI_OK && damaged)
        cli_warning("%s: %d damaged lines were passed over", path, damaged);
    return to.code;
}

int cli_wisdom(struct cli_options *o)
{
    char text[4096];
    const char *path = cli_wisdom_path(o, text, sizeof text), *what = o->words[0];
    if (!path)
        return cli_error("wisdom is off: expected --wisdom FILE, CONVOY_WISDOM, XDG_CACHE_HOME or HOME");
    if (strcmp(what, "merge") != 0 && o->word_count > 1)
        return cli_error("'%.100s' is one word too many: expected convoy wisdom %s", o->words[1], what);
    if (strcmp(what, "show") == 0)
        return show(o, path);
    if (strcmp(what, "clear") == 0)
        return convoy_wisdom_clear(path) == CONVOY_OK ? CLI_OK : cli_failed(NULL, CONVOY_IO_ERROR);
    if (strcmp(what, "merge") != 0)
        return cli_error("'%.100s' is nothing that wisdom does: expected show, merge FILE... or clear", what);
    if (o->word_count < 2)
        return cli_error("merge: a file is missing: expected convoy wisdom merge FILE...");
    if (cli_make_folder(path) != CLI_OK)
        return CLI_BAD;
    for (int i = 1; i < o->word_count; i++)
        if (convoy_wisdom_merge(path, o->words[i]) != CONVOY_OK)
            return cli_failed(NULL, CONVOY_IO_ERROR);
    return CLI_OK;
}
