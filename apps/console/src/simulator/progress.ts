/** What a person has predicted, seen and answered; kept in the browser. */
import { useSyncExternalStore } from "react";

const STORED = "leasehold.simulator";

export interface Progress {
  /** By the experiment's id: what was predicted, and what the run has shown. */
  readonly experiments: Readonly<Record<string, { predicted: string; shown: string | null }>>;
  /** The answer by the question's id. */
  readonly quiz: Readonly<Record<string, string>>;
}

const NONE: Progress = { experiments: {}, quiz: {} };

function read(): Progress {
  try {
    const stored = JSON.parse(localStorage.getItem(STORED) ?? "{}") as Partial<Progress>;
    return { ...NONE, ...stored };
  } catch {
    // Somebody else's text, or no storage at all: begin anew.
    return NONE;
  }
}

let progress = read();
const listeners = new Set<() => void>();
function change(next: Progress): void {
  progress = next;
  try {
    localStorage.setItem(STORED, JSON.stringify(next));
  } catch {
    // Without storage it lasts as long as the page.
  }
  for (const listener of listeners) listener();
}

export function predict(id: string, predicted: string): void {
  change({
    ...progress,
    experiments: { ...progress.experiments, [id]: { predicted, shown: null } },
  });
}
export function observe(id: string, shown: string): void {
  const before = progress.experiments[id];
  if (!before || before.shown === shown) return;
  const experiments = { ...progress.experiments, [id]: { ...before, shown } };
  change({ ...progress, experiments });
}
export function forgetExperiment(id: string): void {
  const { [id]: _, ...experiments } = progress.experiments;
  change({ ...progress, experiments });
}
export function answer(id: string, choice: string): void {
  change({ ...progress, quiz: { ...progress.quiz, [id]: choice } });
}
export function forgetQuiz(): void {
  change({ ...progress, quiz: {} });
}

export function useProgress(): Progress {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => progress,
  );
}
