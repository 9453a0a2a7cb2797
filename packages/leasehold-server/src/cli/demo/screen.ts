/**
 * Redraws a picture in place. It uses the terminal's alternate screen and clears each line, so that
 * neither a resize nor a long line leaves traces. At the end the terminal is as it was before.
 */
import type { Clock, Timer } from "leasehold";
import type { Size } from "./view.js";

const REDRAW_MS = 250;
const ENTER = "\x1b[?1049h\x1b[?25l";
const LEAVE = "\x1b[?25h\x1b[?1049l";
const HOME = "\x1b[H";
const CLEAR_LINE = "\x1b[K";
const CLEAR_BELOW = "\x1b[J";

export class Screen {
  readonly #out: NodeJS.WriteStream;
  readonly #clock: Clock;
  readonly #render: (size: Size) => readonly string[];
  #timer: Timer | undefined;

  /** Draws about four times a second until closed, or until the process ends. */
  constructor(out: NodeJS.WriteStream, clock: Clock, render: (size: Size) => readonly string[]) {
    this.#out = out;
    this.#clock = clock;
    this.#render = render;
    out.write(ENTER);
    process.once("exit", this.#leave);
    this.#draw();
  }

  close(): void {
    process.off("exit", this.#leave);
    this.#leave();
  }

  readonly #leave = () => {
    this.#timer?.cancel();
    this.#out.write(LEAVE);
  };

  #draw(): void {
    const { columns, rows } = this.#out;
    const lines = this.#render({ columns, rows });
    const text = lines.map((line) => line + CLEAR_LINE).join("\r\n");
    this.#out.write(HOME + text + CLEAR_BELOW);
    this.#timer = this.#clock.timer(REDRAW_MS, () => this.#draw());
  }
}
