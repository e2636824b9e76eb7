/* Problems and suites. A suite is a text file: one problem a line; blank lines and what follows a # do not count. */
#include "problems.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int add(struct cli_problems *all, const convoy_problem *problem)
{
    if ((all->count & (all->count - 1)) == 0) { /* at powers of two the list is full */
        struct cli_problem *larger = realloc(all->list, sizeof *larger * (size_t)(all->count ? 2 * all->count : 1));
        if (!larger)
            return cli_error("out of memory: %d problems", all->count);
        all->list = larger;
    }
    struct cli_problem *p = &all->list[all->count++];
    p->problem = *problem;
    convoy_problem_print(problem, p->text, sizeof p->text);
    return CLI_OK;
}

enum { MOST_LINE = 4096 };

/* The next line without its comment and blanks around it; 0 at the end, -1 for one that no text file has. */
static int next_line(FILE *in, char line[MOST_LINE])
{
    int n = 0, c;
    while ((c = getc(in)) != EOF && c != '\n') {
        if (c == 0 || n == MOST_LINE - 1)
            return -1;
        line[n++] = (char)c;
    }
    if (c == EOF && n == 0)
        return 0;
    line[n] = 0;
    n = (int)strcspn(line, "#\r");
    while (n > 0 && isspace((unsigned char)line[n - 1]))
        n--;
    line[n] = 0;
    return 1;
}

static int read_suite(const char *path, struct cli_problems *all)
{
    char line[MOST_LINE];
    struct stat info;
    FILE *in = fopen(path, "r");
    if (!in || fstat(fileno(in), &info) != 0 || S_ISDIR(info.st_mode)) {
        const int code =
            cli_error("suite %s: %s: expected a readable text file", path, in ? "it is a folder" : strerror(errno));
        if (in)
            fclose(in);
        return code;
    }
    int code = CLI_OK, more = 1;
    const int before = all->count;
    for (int number = 1; code == CLI_OK && (more = next_line(in, line)) > 0; number++) {
        const char *from = line + strspn(line, " \t");
        convoy_problem problem;
        if (*from && convoy_problem_parse(from, &problem) != CONVOY_OK)
            code = cli_error("suite %s, line %d: %s", path, number, convoy_last_message());
        else if (*from)
            code = add(all, &problem);
    }
    if (more < 0)
        code = cli_error("suite %s: it holds a zero byte or a line of more than %d: expected a text file", path,
                         MOST_LINE - 1);
    else if (code == CLI_OK && ferror(in))
        code = cli_error("suite %s: it could not be read: %s", path, strerror(errno));
    else if (code == CLI_OK && all->count == before)
        code = cli_error("suite %s: it names no problem: expected one a line", path);
    fclose(in);
    return code;
}

/* Where suites lie: beside the installed command, else in the source tree that this command was built from. */
static bool suite_folder(int which, char *path, size_t bytes)
{
    if (which == 1)
        return snprintf(path, bytes, "%s", CLI_SOURCE_SUITES) < (int)bytes;
    char self[3072];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (which != 0 || length <= 0)
        return false;
    self[length] = 0;
    char *slash = strrchr(self, '/');
    if (!slash)
        return false;
    *slash = 0;
    return snprintf(path, bytes, "%s/../share/convoy/suites", self) < (int)bytes;
}

static bool find_suite(const char *stem, char *path, size_t bytes)
{
    char folder[3584];
    for (int i = 0; i < 2; i++)
        if (suite_folder(i, folder, sizeof folder) && snprintf(path, bytes, "%s/%s.txt", folder, stem) < (int)bytes &&
            access(path, R_OK) == 0)
            return true;
    return false;
}

static void suite_names(char *text, size_t bytes)
{
    char folder[3584];
    size_t n = 0;
    text[0] = 0;
    for (int i = 0; i < 2 && n == 0; i++) {
        DIR *dir = suite_folder(i, folder, sizeof folder) ? opendir(folder) : NULL;
        for (struct dirent *e; dir && (e = readdir(dir)) && n < bytes;) {
            const char *dot = strrchr(e->d_name, '.');
            if (dot && strcmp(dot, ".txt") == 0)
                n += (size_t)snprintf(text + n, bytes - n, "%s%.*s", n ? ", " : "", (int)(dot - e->d_name), e->d_name);
        }
        if (dir)
            closedir(dir);
    }
}

static int add_word(const char *word, struct cli_problems *all)
{
    char path[4096], names[300];
    convoy_problem problem;
    const size_t length = strlen(word);
    if (strchr(word, '/') || (length > 4 && strcmp(word + length - 4, ".txt") == 0))
        return read_suite(word, all);
    if (convoy_problem_parse(word, &problem) == CONVOY_OK)
        return add(all, &problem);
    if (find_suite(word, path, sizeof path))
        return read_suite(path, all);
    if (strpbrk(word, "0123456789"))
        return cli_failed(NULL, CONVOY_INVALID);
    suite_names(names, sizeof names);
    return cli_error("'%.100s' is neither a problem nor a suite: expected a string such as n4c64h128k64r8, A, B, C or "
                     "D, a suite (%s) or a file's path",
                     word, names);
}

int cli_problems(const struct cli_options *o, struct cli_problems *problems)
{
    *problems = (struct cli_problems){0};
    for (int i = 0; i < o->word_count; i++) {
        const int code = add_word(o->words[i], problems);
        if (code != CLI_OK) {
            free(problems->list);
            *problems = (struct cli_problems){0};
            return code;
        }
    }
    return CLI_OK;
}
