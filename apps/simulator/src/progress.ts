/** The user's predictions, results and quiz answers, in the browser's local storage. */
import { useSyncExternalStore } from "react";

const STORED = "leasehold.simulator";

export interface Progress {
  /** The prediction and the result of each experiment, by its id. */
  readonly experiments: Readonly<Record<string, { predicted: string; shown: string | null }>>;
  /** The answer to each question, by its id. */
  readonly quiz: Readonly<Record<string, string>>;
}

const NONE: Progress = { experiments: {}, quiz: {} };

function read(): Progress {
  try {
    const stored = JSON.parse(localStorage.getItem(STORED) ?? "{}") as Partial<Progress>;
    return { ...NONE, ...stored };
  } catch {
    // The text is invalid or there is no storage: start over.
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
    // Without storage the progress lasts until the page is closed.
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
