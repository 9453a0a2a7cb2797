/** Puts it in as the newest; the oldest goes when there are too many. */
export function put<T>(kept: Map<string, T>, key: string, value: T, most: number): void {
  kept.delete(key);
  kept.set(key, value);
  if (kept.size <= most) return;
  for (const oldest of kept.keys()) {
    kept.delete(oldest);
    return;
  }
}
