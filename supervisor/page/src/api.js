// Requests to the sidecar, with the token → answers, or what is wrong in words.
//
// The token comes with the address (`/#token=…`), from where it is removed at once, or from the form that asks for it. It is kept
// as long as the tab, and a new tab has it from those that are open. Whether the sidecar can be reached is told to whoever listens
// to `link`.

const KEY = "kiln-token";

/** Tells `unauthorized`, `authorized`, `offline`, `online`. */
export const link = new EventTarget();
let reachable = true;

/** Takes the token out of the address bar. */
export function takeToken() {
    const found = /^#token=([^&]*)/.exec(location.hash);
    if (!found) return;
    setToken(decoded(found[1]));
    history.replaceState(null, "", location.pathname + location.search);
}

/** @param {string} text */
function decoded(text) {
    try {
        return decodeURIComponent(text);
    } catch {
        return text;
    }
}

/** @param {string} token */
export function setToken(token) {
    sessionStorage.setItem(KEY, token.trim());
}

/** Tabs of this sidecar ask each other for the token: nobody else hears them. */
export function shareToken() {
    const tabs = new BroadcastChannel(KEY);
    tabs.onmessage = ({ data }) => {
        const token = sessionStorage.getItem(KEY);
        if (data === null && token) tabs.postMessage(token);
        if (data === null || token) return;
        setToken(data);
        link.dispatchEvent(new Event("authorized"));
    };
    if (!sessionStorage.getItem(KEY)) tabs.postMessage(null);
}

/** What every request carries. @returns {Record<string, string>} */
export function credentials() {
    const token = sessionStorage.getItem(KEY);
    return token ? { Authorization: `Bearer ${token}` } : {};
}

/** An answer that is not what was asked for; or none, with the status 0. */
export class Problem extends Error {
    /**
     * @param {number} status
     * @param {{code?: string, title?: string, detail?: string, field?: string, retryable?: boolean}} body
     * @param {number | null} after seconds after which it may be tried again
     */
    constructor(status, body, after = null) {
        super(body.detail || body.title || `the sidecar answered ${status}`);
        this.status = status;
        this.code = body.code ?? "";
        this.field = body.field ?? null;
        this.retryable = body.retryable ?? status === 0;
        this.after = after;
    }
}

/** Whether the sidecar answered; listeners hear of changes. @param {boolean} now */
export function seen(now) {
    if (now === reachable) return;
    reachable = now;
    link.dispatchEvent(new Event(now ? "online" : "offline"));
}

/** The last request reached the sidecar. */
export const isReachable = () => reachable;

/**
 * @param {string} path @param {RequestInit & {accept?: number[]}} [options] accept: statuses beside 2xx that are no problem
 * @returns {Promise<Response>}
 */
export async function call(path, options = {}) {
    const { accept = [], headers, ...rest } = options;
    const shown = credentials();
    let response;
    try {
        response = await fetch(path, { ...rest, headers: { ...shown, .../** @type {any} */ (headers) }, cache: "no-store" });
    } catch (error) {
        if (options.signal?.aborted) throw error;
        seen(false);
        throw new Problem(0, { detail: "the sidecar does not answer" });
    }
    seen(true);
    if (response.ok || accept.includes(response.status)) return response;
    // Another tab gave the token in between.
    if (response.status === 401 && credentials().Authorization !== shown.Authorization) return call(path, options);
    throw await problem(response.status, response.headers.get("retry-after"), await response.text());
}

/** @param {number} status @param {string | null} after @param {string} text */
export async function problem(status, after, text) {
    if (status === 401) link.dispatchEvent(new Event("unauthorized"));
    let body = {};
    try {
        body = JSON.parse(text) ?? {};
    } catch {
        // An answer of something in between, without our words.
    }
    return new Problem(status, body, after === null ? null : Number(after) || null);
}

/** @param {string} path @param {RequestInit} [options] @returns {Promise<any>} */
export async function json(path, options) {
    return (await call(path, options)).json();
}

/** Resolves after so long, or rejects when the signal says so. @param {number} ms @param {AbortSignal} [signal] */
export function sleep(ms, signal) {
    return new Promise((resolve, reject) => {
        const stop = () => {
            clearTimeout(timer);
            reject(signal?.reason);
        };
        const timer = setTimeout(() => {
            signal?.removeEventListener("abort", stop);
            resolve(undefined);
        }, ms);
        if (signal?.aborted) stop();
        else signal?.addEventListener("abort", stop, { once: true });
    });
}
