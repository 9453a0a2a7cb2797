const WIDTH = 30;

/**
 * A line that is drawn over itself on a terminal.
 * @param done of `total`
 */
export function progressLine(done: number, total: number, text: string): string {
  const filled = Math.round((WIDTH * done) / total);
  return `\r${"█".repeat(filled)}${"░".repeat(WIDTH - filled)} ${done}/${total} ${text}`;
}
