/** Which rows are selected: one by one, or from the last one on with shift. */
import { useState } from "react";

export interface Selection {
  readonly ids: ReadonlySet<string>;
  /** @param upTo all from the one that was toggled before */
  readonly toggle: (id: string, upTo: boolean) => void;
  readonly set: (ids: readonly string[]) => void;
}

/** @param shown the ids of the rows, in their order: others are selected no longer */
export function useSelection(shown: readonly string[]): Selection {
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [last, setLast] = useState<string>();
  const ids = new Set(shown.filter((id) => chosen.has(id)));
  const toggle = (id: string, upTo: boolean) => {
    const next = new Set(ids);
    const from = upTo && last !== undefined ? shown.indexOf(last) : -1;
    const to = shown.indexOf(id);
    if (from === -1) {
      if (!next.delete(id)) next.add(id);
    } else {
      const range = shown.slice(Math.min(from, to), Math.max(from, to) + 1);
      for (const one of range) next.add(one);
    }
    setLast(id);
    setChosen(next);
  };
  return { ids, toggle, set: (all) => setChosen(new Set(all)) };
}
