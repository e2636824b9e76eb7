#include "report.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

void json_real(cJSON *object, const char *key, double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.6g", value);
    if (isfinite(value))
        cJSON_AddNumberToObject(object, key, strtod(text, NULL));
    else
        cJSON_AddNullToObject(object, key);
}

int json_line(cJSON *object)
{
    char *text = cJSON_PrintUnformatted(object);
    cJSON_Delete(object);
    if (!text)
        return cli_error("out of memory: a line of JSON");
    puts(text);
    cJSON_free(text);
    return cli_flush();
}

static bool shown;

bool progress_on_terminal(void)
{
    static int terminal = -1;
    if (terminal < 0)
        terminal = isatty(STDERR_FILENO) && (!getenv("TERM") || strcmp(getenv("TERM"), "dumb") != 0);
    return terminal == 1;
}

static int columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

void progress_show(double done, double seconds_left, const char *format, ...)
{
    enum { BAR = 24 };
    char text[256], line[400], bar[BAR + 1];
    if (!progress_on_terminal())
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (done < 0) {
        snprintf(line, sizeof line, "%s", text);
    } else {
        const int full = (int)(BAR * (done < 1 ? done : 1));
        memset(bar, ' ', BAR);
        memset(bar, '#', (size_t)full);
        bar[BAR] = 0;
        snprintf(line, sizeof line, "[%s] %3.0f %%  %.0f s left  %s", bar, 100 * done, seconds_left, text);
    }
    fprintf(stderr, "\r\033[K%.*s", columns() - 1, line);
    shown = true;
}

void progress_clear(void)
{
    if (shown)
        fputs("\r\033[K", stderr);
    shown = false;
}
