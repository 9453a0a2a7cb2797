/**
 * Plays a run: advances virtual time once per animation frame and notifies subscribers. The model runs
 * asynchronously and the page draws the latest frame, so a slow model slows the playback but never the
 * page.
 *
 *   animation frame ─▶ Player ─▶ Playground ─▶ Run: the script ─▶ World: the clock (verification/simulation/world.ts)
 */
import {
  type Action,
  type Frame,
  LONGEST_RUN_MS,
  newScript,
  Playground,
  type Script,
  ScriptError,
} from "./playground/index.js";

export const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 5, 10] as const;
const USUAL_SPEED = 2;

/** Messages in flight for less than this are shown in slow motion, less so at higher speeds. */
const VISIBLE_FLIGHT_MS = 280;
/** Bounds how far time advances in one frame, for example after the browser was suspended. */
const LONGEST_TICK_MS = 250;
/** A step back goes to the step before the last one if the last one is more recent than this. */
const NEW_STEP_MS = 60;
/** The panels beside the stage update at this interval, so that they stay readable. */
const CALM_MS = 150;

export interface View {
  readonly playground: Playground;
  readonly frame: Frame;
  readonly playing: boolean;
  readonly speed: number;
  /** Whether time slows while messages are on their way. */
  readonly slowsForMessages: boolean;
  /** The timeline is being dragged, so the frame is a recorded one. */
  readonly scrubbing: boolean;
  /** The right end of the timeline. */
  readonly endMs: number;
  /** Counts the branches: a new one invalidates what was computed from the old one. */
  readonly branch: number;
  /** Why the last action was refused; null: it was performed. */
  readonly refusal: string | null;
}

type Listener = () => void;

export class Player {
  #view: View;
  #calmView: View;
  readonly #listeners = new Set<Listener>();
  readonly #calmListeners = new Set<Listener>();
  #animation: number | undefined;
  #calm: ReturnType<typeof setTimeout> | undefined;
  #lastTickMs = 0;
  /** The target of the playback, which the frame follows. */
  #wantedMs = 0;
  #running = false;
  #seeking = 0;
  /** Where the playback stops by itself, if it started before that. */
  #stopAtMs: number;
  #limitMs = LONGEST_RUN_MS;

  constructor(script: Script) {
    const playground = new Playground(script);
    const endMs = endOf(playground);
    this.#stopAtMs = endMs;
    this.#view = {
      playground,
      frame: playground.frame,
      endMs,
      branch: 1,
      refusal: null,
      playing: false,
      speed: USUAL_SPEED,
      slowsForMessages: true,
      scrubbing: false,
    };
    this.#calmView = this.#view;
  }

  readonly view = (): View => this.#view;
  readonly subscribe = (listener: Listener): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };
  /** The same as `view`, updated a few times a second. */
  readonly calmView = (): View => this.#calmView;
  readonly subscribeCalmly = (listener: Listener): (() => void) => {
    this.#calmListeners.add(listener);
    return () => this.#calmListeners.delete(listener);
  };

  /** @param untilMs where to stop; default: the end of the scenario */
  load(script: Script, { play = false, untilMs }: { play?: boolean; untilMs?: number } = {}): void {
    this.pause();
    const playground = new Playground(script);
    const endMs = endOf(playground);
    this.#stopAtMs = untilMs ?? endMs;
    this.#wantedMs = 0;
    this.#show({
      playground,
      frame: playground.frame,
      endMs: Math.max(endMs, untilMs ?? 0),
      refusal: null,
      scrubbing: false,
      branch: this.#view.branch + 1,
    });
    if (play) this.play();
  }

  /** Restarts the run without the user's actions. */
  startOver(): void {
    const { script } = this.#view.playground;
    this.load(newScript(script.scenario, { seed: script.seed, settings: script.settings }));
  }

  readonly play = (): void => {
    if (this.#view.playing || this.#view.frame.atMs >= LONGEST_RUN_MS) return;
    const { atMs } = this.#view.frame;
    this.#limitMs = atMs < this.#stopAtMs ? this.#stopAtMs : LONGEST_RUN_MS;
    this.#wantedMs = atMs;
    this.#lastTickMs = performance.now();
    this.#show({ playing: true });
    this.#animation = requestAnimationFrame(this.#tick);
  };
  readonly pause = (): void => {
    if (this.#animation !== undefined) cancelAnimationFrame(this.#animation);
    this.#animation = undefined;
    if (this.#view.playing) this.#show({ playing: false });
  };
  readonly toggle = (): void => {
    if (this.#view.playing) this.pause();
    else this.play();
  };

  setSpeed(speed: number): void {
    this.#show({ speed });
  }
  slowForMessages(slowsForMessages: boolean): void {
    this.#show({ slowsForMessages });
  }

  /** Shows a moment. A move back runs the script again from the start. */
  async seek(atMs: number): Promise<void> {
    // Round up, so that the moment itself has passed.
    const wantedMs = Math.min(LONGEST_RUN_MS, Math.max(0, Math.ceil(atMs)));
    this.#wantedMs = wantedMs;
    const { playground } = this.#view;
    this.#seeking++;
    try {
      this.#arrive(playground, await playground.runTo(wantedMs));
    } finally {
      this.#seeking--;
    }
  }
  /** Moves from the current moment, or from the target of a seek under way. */
  async move(byMs: number): Promise<void> {
    this.pause();
    await this.seek((this.#seeking > 0 ? this.#wantedMs : this.#view.frame.atMs) + byMs);
  }
  /** Shows a recorded frame at once, while the timeline is dragged. */
  scrub(atMs: number): void {
    this.pause();
    const { playground } = this.#view;
    const frame = playground.peek(Math.min(playground.reachedMs, Math.max(0, atMs)));
    if (frame) this.#show({ frame, scrubbing: true });
  }

  /** Goes to the next step. */
  async stepOn(): Promise<void> {
    this.pause();
    const { playground, frame } = this.#view;
    const latestMs = frame.atMs < this.#stopAtMs ? this.#stopAtMs : LONGEST_RUN_MS;
    this.#arrive(playground, await playground.step(latestMs));
  }
  async stepBack(): Promise<void> {
    this.pause();
    const { playground, frame } = this.#view;
    const steps = playground.log.filter(({ isStep, index }) => isStep && index < frame.logEnd);
    const last = steps.at(-1);
    const isNew = last !== undefined && frame.atMs - last.atMs < NEW_STEP_MS;
    await this.seek((isNew ? steps.at(-2) : last)?.atMs ?? 0);
  }

  async perform(action: Action): Promise<void> {
    const { playground, scrubbing, frame } = this.#view;
    if (scrubbing) await playground.runTo(frame.atMs);
    const forks = playground.shownMs < playground.reachedMs;
    try {
      const after = await playground.perform(action);
      this.#wantedMs = after.atMs;
      this.#arrive(playground, after, forks);
    } catch (error) {
      if (!(error instanceof ScriptError)) throw error;
      this.#show({ refusal: error.message });
    }
  }

  close(): void {
    this.pause();
    clearTimeout(this.#calm);
  }

  readonly #tick = (nowMs: number): void => {
    this.#animation = requestAnimationFrame(this.#tick);
    // Wait for the model if it is behind.
    if (this.#running) return;
    const passedMs = Math.min(LONGEST_TICK_MS, Math.max(0, nowMs - this.#lastTickMs));
    this.#lastTickMs = nowMs;
    const limitMs = this.#limitMs;
    this.#wantedMs = Math.min(limitMs, this.#wantedMs + passedMs * this.#pace());
    const { playground } = this.#view;
    this.#running = true;
    void playground
      .runTo(this.#wantedMs)
      .then((frame) => {
        if (this.#view.playground !== playground || this.#view.scrubbing) return;
        this.#arrive(playground, frame);
        if (frame.atMs >= limitMs) this.pause();
      })
      .finally(() => {
        this.#running = false;
      });
  };

  #pace(): number {
    const { speed, slowsForMessages, frame } = this.#view;
    if (!slowsForMessages) return speed;
    const flights = frame.messages.map(({ sentAtMs, arrivesAtMs }) => arrivesAtMs - sentAtMs);
    const shortestMs = Math.max(1, Math.min(...flights));
    const hurry = Math.max(1, speed / USUAL_SPEED);
    return Math.min(speed, (hurry * shortestMs) / VISIBLE_FLIGHT_MS);
  }

  #arrive(playground: Playground, frame: Frame, forked = false): void {
    const view = this.#view;
    if (view.playground !== playground) return;
    const endMs = Math.max(endOf(playground), Math.ceil(playground.reachedMs / 10_000) * 10_000);
    this.#show({
      frame,
      scrubbing: false,
      endMs: Math.min(LONGEST_RUN_MS, endMs),
      branch: forked ? view.branch + 1 : view.branch,
    });
  }

  #show(change: Partial<View>): void {
    this.#view = { ...this.#view, ...change };
    for (const listener of this.#listeners) listener();
    if (!this.#view.playing || change.playground) return this.#calmDown();
    this.#calm ??= setTimeout(() => this.#calmDown(), CALM_MS);
  }
  #calmDown(): void {
    clearTimeout(this.#calm);
    this.#calm = undefined;
    this.#calmView = this.#view;
    for (const listener of this.#calmListeners) listener();
  }
}

function endOf({ scenario, frame }: Playground): number {
  return Math.min(LONGEST_RUN_MS, scenario.endsAtMs(frame.settings));
}
