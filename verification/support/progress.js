// The progress of a long run, on the last line of a terminal.
const WIDTH = 30;

/**
 * @param {number} total how many steps there are
 * @param {boolean} [wanted] without a terminal, nothing is drawn
 */
export function progressBar(total, wanted = true) {
  const isShown = process.stderr.isTTY && wanted;
  return {
    isShown,
    /** @param {number} done @param {string} text of what runs */
    draw(done, text) {
      if (!isShown) return;
      const filled = Math.round((done / total) * WIDTH);
      const bar = "█".repeat(filled) + "░".repeat(WIDTH - filled);
      const line = `${bar} ${done}/${total}  ${text}`;
      process.stderr.write(`\r\x1b[K${line.slice(0, (process.stderr.columns ?? 80) - 1)}`);
    },
    clear() {
      if (isShown) process.stderr.write("\r\x1b[K");
    },
  };
}
