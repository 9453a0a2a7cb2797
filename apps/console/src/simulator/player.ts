/**
 * Plays a run: turns real time into virtual time once per animation frame, and tells who listens. The
 * model runs asynchronously; a picture is drawn of what it has reached, so a slow model slows the
 * playback, never the page.
 */
import {
  type Act,
  type Frame,
  LONGEST_RUN_MS,
  newScript,
  Playground,
  type Script,
  ScriptError,
} from "./playground/index.js";

export const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 5, 10] as const;
const USUAL_SPEED = 2;

/** A message that takes less than this to arrive is shown in slow motion; less so for who is in a hurry. */
const VISIBLE_FLIGHT_MS = 280;
/** After a long pause of the browser, time goes on from where it was. */
const LONGEST_TICK_MS = 250;
/** A step back from a turn that has just come goes to the one before. */
const NEW_TURN_MS = 60;
/** Panels beside the stage follow at a pace at which they can be read. */
const CALM_MS = 150;

export interface View {
  readonly playground: Playground;
  readonly frame: Frame;
  readonly playing: boolean;
  readonly speed: number;
  /** Whether time slows while messages are on their way. */
  readonly slowsForMessages: boolean;
  /** The timeline is being dragged: the frame is one of those that were recorded. */
  readonly scrubbing: boolean;
  /** The right end of the timeline. */
  readonly endMs: number;
  /** Counts the courses: what was computed of an older one is void. */
  readonly course: number;
  /** Why the last act was not done; null: it was. */
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
  /** Where the playback wants to be; the frame follows. */
  #wantedMs = 0;
  #running = false;
  #seeking = 0;
  /** Where the playback stops by itself, if it was begun before. */
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
      course: 1,
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
  /** As `view`, a few times a second. */
  readonly calmView = (): View => this.#calmView;
  readonly subscribeCalmly = (listener: Listener): (() => void) => {
    this.#calmListeners.add(listener);
    return () => this.#calmListeners.delete(listener);
  };

  /** @param untilMs where to stop; by default where its scenario ends */
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
      course: this.#view.course + 1,
    });
    if (play) this.play();
  }

  /** The run without what the person did. */
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

  /** Shows the moment; what lies before is run again from the beginning. */
  async seek(atMs: number): Promise<void> {
    // A moment between two milliseconds is over at the second.
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
  /** On or back from where it is, or is about to be. */
  async move(byMs: number): Promise<void> {
    this.pause();
    await this.seek((this.#seeking > 0 ? this.#wantedMs : this.#view.frame.atMs) + byMs);
  }
  /** While the timeline is dragged: a recorded frame at once, if there is one. */
  scrub(atMs: number): void {
    this.pause();
    const { playground } = this.#view;
    const frame = playground.peek(Math.min(playground.reachedMs, Math.max(0, atMs)));
    if (frame) this.#show({ frame, scrubbing: true });
  }

  /** To the next turn of the story. */
  async stepOn(): Promise<void> {
    this.pause();
    const { playground, frame } = this.#view;
    const latestMs = frame.atMs < this.#stopAtMs ? this.#stopAtMs : LONGEST_RUN_MS;
    this.#arrive(playground, await playground.step(latestMs));
  }
  async stepBack(): Promise<void> {
    this.pause();
    const { playground, frame } = this.#view;
    const turns = playground.log.filter(({ isStep, index }) => isStep && index < frame.logEnd);
    const last = turns.at(-1);
    const isNew = last !== undefined && frame.atMs - last.atMs < NEW_TURN_MS;
    await this.seek((isNew ? turns.at(-2) : last)?.atMs ?? 0);
  }

  async act(act: Act): Promise<void> {
    const { playground, scrubbing, frame } = this.#view;
    if (scrubbing) await playground.runTo(frame.atMs);
    const forks = playground.shownMs < playground.reachedMs;
    try {
      const after = await playground.act(act);
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
    // A model that is behind is waited for.
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
      course: forked ? view.course + 1 : view.course,
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
