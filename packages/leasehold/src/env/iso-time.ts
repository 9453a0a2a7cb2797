let last = { ms: 0, text: "1970-01-01T00:00:00.000Z" };
let earlier = last;

/**
 * Formats milliseconds since 1970 as ISO 8601, in UTC. Keeps the last two texts: a batch has mostly its own
 * time and that at which its grants end, and to format one costs more than to grant a lease. Stores have whole microseconds, which a double is not in milliseconds.
 */
export function isoTime(exactMs: number): string {
  const ms = Math.floor(exactMs + 0.0005);
  if (last.ms !== ms) {
    const next = earlier.ms === ms ? earlier : { ms, text: new Date(ms).toISOString() };
    [earlier, last] = [last, next];
  }
  return last.text;
}
