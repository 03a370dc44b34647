// A zip → its files, unpacked piece by piece as the archive is read, so that the page stays alive and an archive that would
// grow without end is noticed.

import { Unzip, UnzipInflate, UnzipPassThrough } from "fflate";

/** Unpacked, all together. */
const MOST_BYTES = 8 * 2 ** 30;
const MOST_FILES = 10_000;

/** What archivers add and nobody asked for. @param {string} path */
export function isClutter(path) {
    return path.split("/").some((part) => part.startsWith(".") || part === "__MACOSX" || part === "Thumbs.db");
}

/**
 * @param {Blob} archive @param {(share: number) => void} [tell]
 * @returns {Promise<{path: string, blob: Blob}[]>}
 */
export async function unzip(archive, tell = () => {}) {
    /** @type {{path: string, blob: Blob}[]} */
    const files = [];
    /** @type {Error | null} */
    let failed = null;
    let bytes = 0;
    const reader = new Unzip((entry) => {
        const path = entry.name.replaceAll("\\", "/");
        if (path.endsWith("/") || isClutter(path)) return;
        /** @type {BlobPart[]} */
        const parts = [];
        entry.ondata = (error, piece, last) => {
            if (error) failed ??= error;
            if (failed) return;
            bytes += piece.length;
            if (bytes > MOST_BYTES) failed = new Error("it holds more than 8 GiB");
            parts.push(/** @type {BlobPart} */ (piece));
            if (!last) return;
            files.push({ path, blob: new Blob(parts) });
            if (files.length > MOST_FILES) failed = new Error("it holds more than 10,000 files");
        };
        entry.start();
    });
    reader.register(UnzipInflate);
    reader.register(UnzipPassThrough);
    const stream = archive.stream().getReader();
    let read = 0;
    try {
        for (;;) {
            const { done, value } = await stream.read();
            reader.push(value ?? new Uint8Array(), done);
            if (failed) throw failed;
            if (done) break;
            read += value.length;
            tell(read / archive.size);
        }
    } finally {
        // Where it broke off, nobody reads the rest.
        await stream.cancel();
    }
    if (files.length === 0) throw new Error("there are no files in it");
    return files;
}
