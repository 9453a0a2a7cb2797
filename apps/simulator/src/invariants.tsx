/** The invariants, checked at every moment. Red: guaranteed, but broken. */
import { classNames, Icon, type IconName } from "leasehold-ui";
import { useState } from "react";
import type { InvariantFrame } from "./playground/index.js";
import { useCalmView } from "./use-player.js";

interface Style {
  readonly sign: IconName;
  readonly tone: string;
  readonly state: string;
}
const HOLDS: Style = { sign: "check", tone: "border-ok/30 bg-ok-soft text-ok", state: "holds" };
const BROKEN: Style = {
  sign: "close",
  tone: "border-danger bg-danger-soft text-danger",
  state: "broken",
};
const NOT_PROMISED: Style = {
  sign: "warning",
  tone: "border-warn bg-warn-soft text-warn",
  state: "broken, but not guaranteed under these conditions",
};

function styleOf({ holds, promised }: InvariantFrame): Style {
  if (holds) return HOLDS;
  return promised ? BROKEN : NOT_PROMISED;
}

export function Invariants() {
  const { invariants } = useCalmView().frame;
  const [chosen, setChosen] = useState<string | null>(null);
  const detailed =
    invariants.find(({ id }) => id === chosen) ?? invariants.find(({ holds }) => !holds) ?? null;
  return (
    <section aria-label="Invariants">
      <ul className="flex flex-wrap items-center gap-1.5">
        <li aria-hidden="true" className="mr-1 text-xs text-muted">
          Checked continuously
        </li>
        {invariants.map((invariant) => {
          const { sign, tone, state } = styleOf(invariant);
          const { id, name, breaches } = invariant;
          return (
            <li key={id}>
              <button
                type="button"
                aria-expanded={detailed?.id === id}
                aria-label={`${name}: ${state}`}
                onClick={() => setChosen(chosen === id ? null : id)}
                className={classNames(
                  "inline-flex items-center gap-1.5 rounded-full border px-2.5 py-1 text-xs font-medium transition-colors",
                  tone,
                )}
              >
                <Icon name={sign} size={12} />
                {name}
                {breaches > 1 && <span className="tabular">×{breaches}</span>}
              </button>
            </li>
          );
        })}
      </ul>
      {detailed && (
        <p className="mt-2 text-sm text-muted" aria-live="polite">
          {detailed.sinceMs !== null && (
            <b className={detailed.promised ? "text-danger" : "text-warn"}>
              {detailed.promised ? "Broken" : "Broken, but not guaranteed here,"} since{" "}
              {(detailed.sinceMs / 1_000).toFixed(2)} s:{" "}
            </b>
          )}
          {detailed.detail}
        </p>
      )}
    </section>
  );
}
