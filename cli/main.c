/* The command line `convoy`: finds the command and runs it. */
#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct cli_command commands[] = {
    {"run", "", "Convolve arrays: x.npy with w.npy into y.npy.", TAKES_PLAN | TAKES_RUN, 0, 0, cli_run},
    {"verify", "PROBLEM|SUITE...",
     "Check every engine that accepts a problem against FP64, and exact engines bit for bit.",
     TAKES_PLAN | TAKES_DATA | TAKES_VERIFY, 1, -1, cli_verify},
    {"bench", "PROBLEM|SUITE...", "Time every engine: median, spread, rates, error, workspace.",
     TAKES_PLAN | TAKES_DATA | TAKES_BENCH, 1, -1, cli_bench},
    {"tune", "PROBLEM|SUITE...", "Time the best few choices for each problem and remember the quickest in wisdom.",
     TAKES_PLAN | TAKES_DATA | TAKES_TUNE, 1, -1, cli_tune},
    {"explain", "PROBLEM|SUITE...", "Say for every engine whether it is chosen, slower, or why it declines.",
     TAKES_PLAN | TAKES_DATA, 1, -1, cli_explain},
    {"engines", "", "List the engines of this build.", 0, 0, 0, cli_engines},
    {"info", "", "Describe this machine as the library sees it.", TAKES_INFO, 0, 0, cli_info},
    {"wisdom", "show|merge FILE...|clear", "Show what tuning remembers, merge other files into it, or forget it.", 0, 1,
     -1, cli_wisdom},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static const char *running = "";

static void say(const char *kind, const char *format, va_list args)
{
    char text[1024];
    vsnprintf(text, sizeof text, format, args);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f) /* one line, whatever a file's name holds */
            *c = '?';
    fprintf(stderr, "convoy%s%s: %s%s\n", *running ? " " : "", running, kind, text);
}

int cli_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say("", format, args);
    va_end(args);
    return CLI_BAD;
}

int cli_warning(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say("warning: ", format, args);
    va_end(args);
    return CLI_OK;
}

int cli_failed(const char *where, convoy_status status)
{
    const char *message = convoy_last_message();
    return cli_error("%s%s%s", where ? where : "", where ? ": " : "", *message ? message : convoy_status_text(status));
}

int cli_flush(void)
{
    static bool told;
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return CLI_OK;
    if (!told)
        cli_error("standard output: %s: expected a reader and room",
                  errno ? strerror(errno) : "it could not be written");
    told = true;
    return CLI_BAD;
}

/* Covers --help too, where argp exits. */
static void flush_at_exit(void)
{
    if (cli_flush() != CLI_OK)
        _exit(CLI_BAD);
}

static void help(void)
{
    printf("Usage: convoy COMMAND [OPTION...]\nStrict-FP32 2-D convolution with large kernels.\n\n");
    for (int i = 0; i < COMMANDS; i++)
        printf("  %-8s %-25s %s\n", commands[i].name, commands[i].words, commands[i].about);
    printf("\nconvoy COMMAND --help, or convoy help COMMAND, shows a command's options; convoy --version the version.\n"
           "A PROBLEM is a string such as n4c64h128k64r8_pad3, or A, B, C, D (the reference problems); a SUITE is a "
           "list of them:\n"
           "leaderboard, convnets, imaging, large_depthwise, edges, or a file.\n"
           "Exit codes: 0 fine, 1 a check failed, 2 bad usage or input.\n");
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2)
        return cli_error("a command is missing: expected one of those that convoy --help lists");
    if (strcmp(argv[1], "--version") == 0)
        return printf("convoy %s\n", convoy_version()), CLI_OK;
    if (strcmp(argv[1], "help") == 0 && argc > 2) { /* convoy help COMMAND is convoy COMMAND --help */
        static char word[] = "--help";
        argv[1] = argv[2];
        argv[2] = word;
        argc = 3;
    } else if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0)
        return help(), CLI_OK;
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0) {
            static char name[32];
            struct cli_options options;
            running = commands[i].name;
            snprintf(name, sizeof name, "convoy %s", running);
            argv[1] = name; /* what argp and getopt call the program */
            int code = cli_parse(&commands[i], argc - 1, argv + 1, &options);
            if (code == CLI_OK)
                code = commands[i].run(&options);
            free(options.words);
            return code;
        }
    return cli_error("'%.100s' is not a command: expected run, verify, bench, tune, explain, engines, info or wisdom",
                     argv[1]);
}

/* Whoever starts us may have closed the standard streams. A file that is opened must not get their numbers, where
 * messages would be written into it; opened for reading, they fail to be written as before. */
static void hold_streams(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    hold_streams();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is a failed write, which is reported */
    signal(SIGXFSZ, SIG_IGN); /* and so is a file-size limit */
    atexit(flush_at_exit);
    return dispatch(argc, argv);
}
