// A job's event stream, read by fetch (an EventSource cannot show a token) and taken up where it broke off.

import { call, Problem, sleep } from "./api.js";
import { SseParser } from "./sse.js";

/** Longest pause between two attempts. */
const LONGEST = 5000;

/**
 * Tells each event until the job is over, or the signal ends it; lost connections are taken up again.
 * @param {string} id @param {AbortSignal} signal
 * @param {{event: (name: string, data: any) => void, again: () => Promise<boolean>}} listener again: before the stream is taken up
 *   anew; true where what it told is void, since the sidecar has begun the job again
 */
export async function follow(id, signal, listener) {
    let last = "";
    let wait = 250;
    for (;;) {
        let over = false;
        try {
            const headers = last === "" ? {} : { "Last-Event-ID": last };
            const response = await call(`/v1/jobs/${id}/events`, { headers, signal });
            if (response.status === 204 || !response.body) return;
            const parser = new SseParser();
            parser.id = last;
            const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
            for (;;) {
                const { done, value } = await reader.read();
                if (done) break;
                wait = 250;
                for (const { event, data, id } of parser.push(value)) {
                    last = id;
                    over ||= event === "done";
                    listener.event(event, JSON.parse(data));
                }
            }
        } catch (error) {
            if (signal.aborted) return;
            const final = error instanceof Problem && !error.retryable && error.status < 500;
            if (final) throw error;
        }
        if (over) return;
        try {
            // Not all at the same moment.
            await sleep(wait * (0.75 + Math.random() / 2), signal);
            wait = Math.min(LONGEST, wait * 2);
            if (await listener.again()) last = "";
        } catch (error) {
            if (signal.aborted) return;
            if (error instanceof Problem && !error.retryable && error.status !== 0 && error.status < 500) throw error;
        }
    }
}
