/** Prints results on stdout: a JSON line for programs, or text for people. */
import pc from "picocolors";

/** Colours if stdout is a terminal and NO_COLOR is not set. */
export const colors = pc.createColors(Boolean(process.stdout.isTTY) && pc.isColorSupported);

export function print(json: boolean | undefined, value: unknown, text: () => string): void {
  process.stdout.write(`${json ? JSON.stringify(value) : text()}\n`);
}
