/* convoy engines, convoy info: what this build and this machine have. */
#include "report.h"

#include <stdio.h>
#include <string.h>

static const char *const device_name[] = {"cpu", "cuda"};

int cli_engines(struct cli_options *o)
{
    const convoy_engine_info *e;
    int code = CLI_OK;
    for (int i = 0; code == CLI_OK && (e = convoy_engine(i)); i++) {
        if (o->device >= 0 && (int)e->device != o->device)
            continue;
        if (o->json) {
            cJSON *line = cJSON_CreateObject();
            cJSON_AddStringToObject(line, "engine", e->name);
            cJSON_AddNumberToObject(line, "revision", e->revision);
            cJSON_AddStringToObject(line, "device", device_name[e->device]);
            cJSON_AddStringToObject(line, "math", e->keeps_exact ? "exact" : "fp32");
            cJSON_AddBoolToObject(line, "transform", e->transform);
            cJSON_AddBoolToObject(line, "vendor", e->vendor);
            cJSON_AddBoolToObject(line, "by_name_only", e->by_name_only);
            cJSON_AddStringToObject(line, "about", e->about);
            code = json_line(line);
        } else {
            printf("%-11s %-4s  %-5s  %s%s%s\n", e->name, device_name[e->device], e->keeps_exact ? "exact" : "fp32",
                   e->about, e->vendor ? " (vendor)" : "", e->by_name_only ? " (only when named)" : "");
        }
    }
    return code == CLI_OK ? cli_flush() : code;
}

/* "key: value" lines as members of an object; whole numbers as numbers. */
static void add_facts(cJSON *object, const char *text)
{
    char key[64], value[512];
    while (*text) {
        const size_t length = strcspn(text, "\n");
        const char *colon = memchr(text, ':', length);
        if (colon && (size_t)(colon - text) < sizeof key && length < sizeof value) {
            snprintf(key, sizeof key, "%.*s", (int)(colon - text), text);
            const char *from = colon + 1 + strspn(colon + 1, " ");
            snprintf(value, sizeof value, "%.*s", (int)(text + length - from), from);
            if (*value && strspn(value, "0123456789") == strlen(value) && strlen(value) < 16)
                cJSON_AddRawToObject(object, key, value);
            else
                cJSON_AddStringToObject(object, key, value);
        }
        text += length + (text[length] == '\n');
    }
}

int cli_info(struct cli_options *o)
{
    convoy_context *context;
    double flop_per_s = 0, bytes_per_s = 0;
    int code = cli_context(o, &context);
    if (code != CLI_OK)
        return code;
    if (o->ceilings) {
        const convoy_status status = convoy_measure_ceilings(context, &flop_per_s, &bytes_per_s);
        if (status != CONVOY_OK)
            code = cli_failed("ceilings", status);
    }
    if (code == CLI_OK && o->json) {
        cJSON *line = cJSON_CreateObject();
        add_facts(line, convoy_context_info(context));
        if (o->ceilings) {
            json_real(line, "fma_gflop_per_s", 1e-9 * flop_per_s);
            json_real(line, "copy_gb_per_s", 1e-9 * bytes_per_s);
        }
        code = json_line(line);
    } else if (code == CLI_OK) {
        const char *text = convoy_context_info(context);
        const size_t length = strlen(text);
        printf("%s%s", text, length && text[length - 1] == '\n' ? "" : "\n");
        if (o->ceilings)
            printf("fma_gflop_per_s: %.1f\ncopy_gb_per_s: %.1f\n", 1e-9 * flop_per_s, 1e-9 * bytes_per_s);
        code = cli_flush();
    }
    convoy_context_destroy(context);
    return code;
}
