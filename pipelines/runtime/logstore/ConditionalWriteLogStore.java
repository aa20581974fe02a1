package io.tailrace;

import io.delta.storage.HadoopFileSystemLogStore;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * A log store of Delta for S3: a commit is one conditional write, which succeeds only where no object is yet.
 *
 * <p>Whatever the store answers, the object that is there afterwards decides. So a commit whose answer was lost, and
 * that met its own object when it was sent again, has succeeded: each commit contains an id of its own (txnId).
 */
public final class ConditionalWriteLogStore extends HadoopFileSystemLogStore {
    private static final String CONDITION = "fs.option.create.conditional.overwrite";

    public ConditionalWriteLogStore(Configuration settings) {
        super(settings);
    }

    @Override
    public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration settings)
            throws IOException {
        FileSystem files = path.getFileSystem(settings);
        StringBuilder lines = new StringBuilder();
        while (actions.hasNext()) {
            lines.append(actions.next()).append('\n');
        }
        byte[] content = lines.toString().getBytes(StandardCharsets.UTF_8);
        if (overwrite) {
            put(files.create(path, true), content);
        } else {
            create(files, path, content);
        }
    }

    @Override
    public Boolean isPartialWriteVisible(Path path, Configuration settings) {
        return false;
    }

    /** Whether the store of {@code root} refuses a conditional write to an object that is there; tried with one. */
    public static boolean isSafe(String root, Configuration settings) throws IOException {
        Path path = new Path(root, "_conditional_write_" + UUID.randomUUID());
        FileSystem files = path.getFileSystem(settings);
        try {
            create(files, path, new byte[] {1});
            create(files, path, new byte[] {2});
            return false;
        } catch (FileAlreadyExistsException refused) {
            return true;
        } finally {
            files.delete(path, false);
        }
    }

    private static void create(FileSystem files, Path path, byte[] content) throws IOException {
        try {
            FSDataOutputStreamBuilder<?, ?> made = files.createFile(path).create().overwrite(true);
            put(made.must(CONDITION, true).build(), content);
        } catch (IOException failure) {
            byte[] found = contentOf(files, path);
            if (found == null) {
                throw failure;
            }
            if (!Arrays.equals(found, content)) {
                throw new FileAlreadyExistsException(path.toString());
            }
        }
    }

    private static void put(FSDataOutputStream stream, byte[] content) throws IOException {
        try (stream) {
            stream.write(content);
        }
    }

    private static byte[] contentOf(FileSystem files, Path path) throws IOException {
        try (FSDataInputStream stream = files.open(path)) {
            return stream.readAllBytes();
        } catch (FileNotFoundException none) {
            return null;
        }
    }
}
