// Files that are dropped or chosen, in folders or in a zip → a flat list with paths.

import { unzip, isClutter } from "./zip.js";

/** @typedef {{path: string, blob: Blob}} Item */

/**
 * Entries must be taken in the event itself: afterwards the browser has forgotten them.
 * @param {DataTransfer} transfer @returns {Promise<Item[]>}
 */
export async function fromDrop(transfer) {
    const entries = [...transfer.items].map((item) => ({ entry: item.webkitGetAsEntry?.() ?? null, file: item.getAsFile() }));
    const lists = entries.map(({ entry, file }) => {
        if (entry) return walk(entry, "");
        return file ? [{ path: file.name, blob: file }] : [];
    });
    return (await Promise.all(lists)).flat().filter(({ path }) => !isClutter(path));
}

/** @param {FileList} list @returns {Item[]} */
export function fromList(list) {
    const items = [...list].map((file) => ({ path: file.webkitRelativePath || file.name, blob: file }));
    return items.filter(({ path }) => !isClutter(path));
}

/** @param {any} entry @param {string} beside @returns {Promise<Item[]>} */
async function walk(entry, beside) {
    const path = beside + entry.name;
    if (entry.isFile) {
        const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
        return [{ path, blob: file }];
    }
    const reader = entry.createReader();
    const all = [];
    for (;;) {
        // A hundred at a time.
        const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
        if (some.length === 0) break;
        all.push(...some);
    }
    return (await Promise.all(all.map((child) => walk(child, `${path}/`)))).flat();
}

/** Zips among the files are replaced by what they hold. @param {Item[]} items @param {(text: string) => void} tell @returns {Promise<Item[]>} */
export async function unpack(items, tell) {
    const lists = [];
    for (const item of items) {
        if (!item.path.toLowerCase().endsWith(".zip")) {
            lists.push([item]);
            continue;
        }
        try {
            lists.push(await unzip(item.blob, (share) => tell(`Unpacking ${item.path}: ${Math.floor(100 * share)} %`)));
        } catch (error) {
            throw new Error(`${item.path} cannot be unpacked: ${error instanceof Error ? error.message : error}`);
        }
    }
    return lists.flat();
}
