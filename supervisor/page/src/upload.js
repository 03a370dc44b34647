// Files → blobs of the store under their SHA-256: asked for first, sent only where they are missing.

import { call, credentials, problem, Problem, seen, sleep } from "./api.js";

/** At once; a browser opens six connections, and others are at work beside this. */
const AT_ONCE = 3;
const ATTEMPTS = 6;
/** Smaller ones are sent unasked: the answer is as long in coming as they are. */
const ASKED = 64 << 10;

/** @param {Blob} blob @returns {Promise<string>} */
export async function digestOf(blob) {
    const bytes = await crypto.subtle.digest("SHA-256", await blob.arrayBuffer());
    return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Sends the files; gives their digests by name.
 * @param {Map<string, Blob>} files @param {AbortSignal} signal
 * @param {(done: number, total: number) => void} tell in bytes
 * @returns {Promise<Map<string, string>>}
 */
export async function upload(files, signal, tell) {
    const total = [...files.values()].reduce((sum, blob) => sum + blob.size, 0);
    /** @type {Map<Blob, number>} */
    const sent = new Map();
    const report = () => tell([...sent.values()].reduce((sum, bytes) => sum + bytes, 0), total);
    const digests = new Map();
    const queue = [...files];
    const work = async () => {
        for (let next = queue.shift(); next; next = queue.shift()) {
            const [name, blob] = next;
            const digest = await digestOf(blob);
            await sendOne(digest, blob, signal, (bytes) => {
                sent.set(blob, bytes);
                report();
            });
            sent.set(blob, blob.size);
            report();
            digests.set(name, digest);
        }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    return digests;
}

/** @param {string} digest @param {Blob} blob @param {AbortSignal} signal @param {(bytes: number) => void} tell */
async function sendOne(digest, blob, signal, tell) {
    for (let attempt = 1; ; attempt++) {
        try {
            const asks = blob.size > ASKED;
            const there = asks && (await call(`/v1/blobs/${digest}`, { method: "HEAD", accept: [404], signal })).ok;
            if (!there) await put(`/v1/blobs/${digest}`, blob, signal, tell);
            return;
        } catch (error) {
            const again = error instanceof Problem && error.retryable && attempt < ATTEMPTS;
            if (!again) throw error;
            await sleep(error.after ? error.after * 1000 : 250 * 2 ** attempt, signal);
        }
    }
}

/**
 * fetch does not tell how much is on its way; this does.
 * @param {string} path @param {Blob} blob @param {AbortSignal} signal @param {(bytes: number) => void} tell
 * @returns {Promise<void>}
 */
function put(path, blob, signal, tell) {
    return new Promise((resolve, reject) => {
        const request = new XMLHttpRequest();
        request.open("PUT", path);
        for (const [name, value] of Object.entries(credentials())) request.setRequestHeader(name, value);
        request.setRequestHeader("Content-Type", "application/octet-stream");
        request.upload.onprogress = (event) => tell(event.loaded);
        request.onload = async () => {
            seen(true);
            if (request.status < 300) resolve();
            else reject(await problem(request.status, request.getResponseHeader("retry-after"), request.responseText));
        };
        request.onerror = () => {
            seen(false);
            reject(new Problem(0, { detail: "the sidecar does not answer" }));
        };
        request.onabort = () => reject(signal.reason);
        signal.addEventListener("abort", () => request.abort(), { once: true });
        request.send(blob);
    });
}
