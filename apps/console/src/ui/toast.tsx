/** Short messages about the result of an action. Screen readers announce them; they close by themselves. */
import { classNames } from "leasehold-ui";
import { Toast as Radix } from "radix-ui";
import { useSyncExternalStore } from "react";
import { ApiError } from "../data/api.js";

interface Note {
  readonly id: number;
  readonly text: string;
  readonly bad: boolean;
}

let notes: readonly Note[] = [];
let nextId = 1;
const listeners = new Set<() => void>();
function change(next: readonly Note[]): void {
  notes = next;
  for (const listener of listeners) listener();
}

export function notify(text: string, bad = false): void {
  change([...notes.slice(-3), { id: nextId++, text, bad }]);
}
export function notifyFailure(error: unknown): void {
  notify(error instanceof ApiError ? `${error.message} (${error.code})` : String(error), true);
}

export function Toasts() {
  const shown = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => notes,
  );
  return (
    <Radix.Provider duration={6_000} swipeDirection="right">
      {shown.map(({ id, text, bad }) => (
        <Radix.Root
          key={id}
          onOpenChange={(open) => {
            if (!open) change(notes.filter((note) => note.id !== id));
          }}
          className={classNames(
            "rounded-lg border bg-raised px-4 py-3 text-sm shadow-raised",
            bad && "border-danger",
          )}
        >
          <Radix.Description>{text}</Radix.Description>
        </Radix.Root>
      ))}
      <Radix.Viewport className="fixed right-4 bottom-4 z-50 grid w-80 max-w-[calc(100vw-2rem)] gap-2" />
    </Radix.Provider>
  );
}
