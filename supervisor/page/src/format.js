// Numbers, times and words → text for people.

/** @param {number} bytes */
export function size(bytes) {
    const units = ["B", "KiB", "MiB", "GiB"];
    const step = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
    const value = bytes / 1024 ** step;
    return `${value < 10 && step > 0 ? value.toFixed(1) : Math.round(value)} ${units[step]}`;
}

/** @param {number} seconds */
export function span(seconds) {
    if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
    const whole = Math.round(seconds);
    if (whole < 60) return `${whole} s`;
    if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
    return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")} min`;
}

/** How long ago. @param {string | number} time @param {number} [now] */
export function ago(time, now = Date.now()) {
    const seconds = Math.max(0, (now - new Date(time).getTime()) / 1000);
    if (seconds < 10) return "just now";
    if (seconds < 60) return `${Math.floor(seconds)} s ago`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
    if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
    return `${Math.floor(seconds / 86_400)} d ago`;
}

/** @param {number} share */
export const percent = (share) => `${Math.floor(share * 100)} %`;

/** @param {number | null | undefined} value */
export const decibel = (value) => (value == null ? "–" : `${value.toFixed(1)} dB`);

/** @param {number} value */
export const count = (value) => value.toLocaleString("en");

/** `load_mesh` as people write it. @param {string | null | undefined} text */
export const words = (text) => (text ?? "").replaceAll("_", " ");

/** Time left, as roughly as it is known. @param {number} seconds */
export function left(seconds) {
    if (seconds < 8) return "a few seconds left";
    const step = seconds < 60 ? 5 : seconds < 600 ? 15 : 60;
    return `about ${span(Math.max(step, Math.round(seconds / step) * step)).replace(" min 00 s", " min")} left`;
}
