import { Badge, type Tone } from "leasehold-ui";
import type { State } from "./task-queries.js";

const TONES: Readonly<Record<State, Tone>> = {
  pending: "plain",
  running: "accent",
  done: "ok",
  dead: "danger",
  cancelled: "warn",
  expired: "warn",
};

export function StateBadge({ state }: { readonly state: State }) {
  return <Badge tone={TONES[state]}>{state}</Badge>;
}
