const WIDTH = 30;

/**
 * Returns a progress line that overwrites the previous one on a terminal.
 * @param done how many of `total` are done
 */
export function progressLine(done: number, total: number, text: string): string {
  const filled = Math.round((WIDTH * done) / total);
  return `\r${"█".repeat(filled)}${"░".repeat(WIDTH - filled)} ${done}/${total} ${text}`;
}
