import { Link } from "@tanstack/react-router";
import { Badge, Token, tokenStyle } from "leasehold-ui";
import { Panel } from "../../ui/panel.js";
import { Remaining } from "../leases/lease-state.js";
import type { ShardGroup } from "./elections-query.js";

interface Props {
  readonly group: ShardGroup;
  readonly answeredAtMs: number;
}

export function ShardPanel({ group, answeredAtMs }: Props) {
  const { name, coordinator, members, shards } = group;
  const orphans = shards.filter(({ holder }) => holder === null);
  return (
    <Panel
      title={<span className="font-mono break-all">{name}</span>}
      aside={
        <span className="inline-flex items-center gap-2">
          {orphans.length > 0 && <Badge tone="warn">{orphans.length} unassigned</Badge>}
          <Badge>{shards.length} shards</Badge>
        </span>
      }
    >
      <p className="px-4 pt-3 text-sm">
        <span className="text-muted">Coordinator:</span>{" "}
        {coordinator ?? <span className="text-warn">none</span>}
      </p>
      <ul aria-label={`Members of ${name}`}>
        {members.map(({ member, holder, remainingMs }) => {
          const own = shards.filter((shard) => shard.holder === holder);
          return (
            <li
              key={member}
              className="grid gap-x-4 gap-y-2 border-b px-4 py-3 text-sm last:border-b-0 sm:grid-cols-[14rem_minmax(0,1fr)]"
            >
              <div className="min-w-0">
                <p className="truncate font-medium">{holder}</p>
                <p className="text-xs text-muted">
                  {own.length} {own.length === 1 ? "shard" : "shards"}, lease expires in{" "}
                  <Remaining {...{ remainingMs, answeredAtMs }} />
                </p>
              </div>
              <Chips name={name} shards={own} />
            </li>
          );
        })}
        {orphans.length > 0 && (
          <li className="grid gap-x-4 gap-y-2 px-4 py-3 text-sm sm:grid-cols-[14rem_minmax(0,1fr)]">
            <p className="text-warn">unassigned</p>
            <Chips name={name} shards={orphans} />
          </li>
        )}
      </ul>
    </Panel>
  );
}

/** Shards in the colours of their tokens. A token changes when the shard moves to another member. */
function Chips({ name, shards }: { readonly name: string; readonly shards: ShardGroup["shards"] }) {
  return (
    <ul className="flex flex-wrap gap-1.5" aria-label="Shards">
      {shards.map(({ shard, token }) => (
        <li key={shard}>
          <Link
            to="/leases/$resource"
            params={{ resource: `${name}/shards/${shard}` }}
            style={tokenStyle(token)}
            className="inline-flex items-center gap-2 rounded-md border bg-surface px-2 py-1 text-xs hover:border-line-strong"
          >
            <span className="font-semibold tabular">{shard}</span>
            <Token token={token || null} />
          </Link>
        </li>
      ))}
    </ul>
  );
}
