# A tree to copy: sizes, holes, links, modes, owners, attributes, and times before 1970 and with fractions.
set -e
umask 022
mkdir source
cd source
mkdir folder-1 folder-2 empty
for n in 1 2 3 4 5; do
    head -c $((n * n * 9000 + n)) /dev/zero | tr '\0' "$n" > file-$n
    cp file-$n folder-1/file-$n
done
ln file-1 hard
ln -s file-2 soft
ln -s nowhere dangling
truncate -s 1M sparse
printf end >> sparse
mkfifo pipe
chown 1000:1001 file-3
chmod 4755 file-4
chmod 2775 folder-2
setfattr -n user.note -v text file-5 2> /dev/null || true
touch -h -d '2001-02-03 04:05:06.123456789' file-1 file-2 soft dangling folder-1/file-1
touch -d '1969-12-31 23:59:58.5' file-3
find . -newermt 2015-01-01 ! -name dangling -exec touch -h -d '2010-01-01 00:00:00.25' {} +
cd ..
cp -a source source.changed
echo more >> source.changed/file-2
rm source.changed/folder-1/file-5
echo new > source.changed/folder-2/new
touch -d '2011-01-01' source.changed/file-2 source.changed/folder-2/new
touch -d '1960-01-01' source.changed/file-1
