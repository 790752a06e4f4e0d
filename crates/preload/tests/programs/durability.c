/* What the tests of O_DUR run: opens a file in each way there is, all with the flag, and writes to it.
 *
 *   durability FOLDER   leaves FOLDER/open, open64, openat, openat64, again and plain; says of each whether the kernel saw the flag
 */
#define _GNU_SOURCE
#include "nearhead_durability.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void use(const char *name, int fd, int is_marked)
{
    struct nearhead_durability told = {2, 0};
    int got;

    if (fd < 0 || write(fd, name, 4) != 4 || fdatasync(fd) != 0) {
        perror(name);
        exit(1);
    }
    got = ioctl(fd, NEARHEAD_GET_DURABILITY, &told);
    if (got == 0 && told.is_durability_only != (uint32_t)is_marked) {
        fprintf(stderr, "%s: expected %d, found %u\n", name, is_marked, told.is_durability_only);
        exit(1);
    }
    printf("%s %s%s\n", name, got == 0 ? "nearhead" : "other",
           fcntl(fd, F_GETFL) & O_DUR ? " and the kernel saw the flag" : "");
    close(fd);
}

int main(int argc, char **argv)
{
    int flags = O_CREAT | O_WRONLY | O_DUR, folder;

    if (argc != 2 || chdir(argv[1]) != 0)
        return 2;
    folder = open(".", O_RDONLY | O_DIRECTORY);
    use("open", open("open", flags, 0600), 1);
    use("open64", open64("open64", flags, 0600), 1);
    use("openat", openat(folder, "openat", flags, 0600), 1);
    use("openat64", openat64(AT_FDCWD, "openat64", flags | O_EXCL, 0600), 1);
    use("plain", open("plain", flags & ~O_DUR, 0600), 0);
    use("again", creat("again", 0600), 0);
    use("again", open("again", O_WRONLY | O_DUR), 1);
    errno = 0;
    if (open("nosuch", O_WRONLY | O_DUR) != -1 || errno != ENOENT)
        return 3;
    errno = 7;
    close(open("open", O_RDONLY | O_DUR));
    /* A mark that no other file system takes is no error of the open. */
    return errno == 7 ? 0 : 4;
}
