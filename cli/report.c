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

/* Bytes of the UTF-8 sequence at s; 0 when there is none. Overlong forms and surrogates are none. */
static int utf8_bytes(const unsigned char *s)
{
    const int n = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3 : 4;
    if (n == 4 && (s[0] < 0xf0 || s[0] > 0xf4))
        return 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
        (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

/* JSON is UTF-8, which the name of a file need not be: other bytes become the replacement character. */
static void put_utf8(const char *text)
{
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        const int n = utf8_bytes(s);
        fwrite(n ? (const char *)s : "\xef\xbf\xbd", 1, n ? (size_t)n : 3, stdout);
        s += n ? n : 1;
    }
}

int json_line(cJSON *object)
{
    char *text = cJSON_PrintUnformatted(object);
    cJSON_Delete(object);
    if (!text)
        return cli_error("out of memory: a line of JSON");
    put_utf8(text);
    putchar('\n');
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
