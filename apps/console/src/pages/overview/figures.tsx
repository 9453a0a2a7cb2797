/** Counts of leases and tasks in the store, and of the contention on this instance. */
import { Link } from "@tanstack/react-router";
import type { Overview } from "leasehold/internal/wire";
import type { ReactNode } from "react";
import { Figure, Panel } from "../../ui/panel.js";

const count = (value: number | undefined, complete = true) =>
  value === undefined ? "–" : `${value.toLocaleString("en")}${complete ? "" : "+"}`;

export function Figures({ overview: { leases, tasks, contended } }: { overview: Overview }) {
  const complete = leases?.complete ?? true;
  const isMissing = leases === null || tasks === null;
  return (
    <div className="grid gap-5 xl:grid-cols-2">
      <Panel title="Leases" aside={isMissing ? "store unavailable" : "whole store"}>
        <Row>
          <Figure
            name="Held"
            value={count(leases?.held, complete)}
            note={
              <To to="/leases" q="state:live">
                show holders
              </To>
            }
          />
          <Figure name="Free" value={count(leases?.ended, complete)} note="last grant ended" />
          <Figure name="Contended" value={count(contended.resources)} note="this instance, 1 min" />
          <Figure name="Waiting" value={count(contended.waiting)} note="this instance, now" />
        </Row>
      </Panel>
      <Panel title="Tasks" aside={isMissing ? "store unavailable" : "whole store"}>
        <Row>
          <Figure name="Pending" value={count(tasks?.pending)} note="due or scheduled" />
          <Figure name="Running" value={count(tasks?.running)} note="under lease" />
          <Figure name="Done" value={count(tasks?.done)} note="until deleted" />
          <Figure
            name="Dead"
            value={
              <span className={tasks?.dead ? "text-danger" : undefined}>{count(tasks?.dead)}</span>
            }
            note="no attempts left"
          />
        </Row>
      </Panel>
    </div>
  );
}

function Row({ children }: { readonly children: ReactNode }) {
  return <div className="grid grid-cols-2 py-1 sm:grid-cols-4">{children}</div>;
}

function To({ to, q, children }: { to: "/leases"; q: string; children: ReactNode }) {
  return (
    <Link to={to} search={{ q }} className="text-accent underline underline-offset-2">
      {children}
    </Link>
  );
}
