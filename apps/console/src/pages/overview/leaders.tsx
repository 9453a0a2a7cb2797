/** The first few leaders, with a link to the page of all elections. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Token } from "leasehold-ui";
import { useMay } from "../../data/who.js";
import { Panel } from "../../ui/panel.js";
import { Failure, Skeleton } from "../../ui/states.js";
import { TimeText } from "../../ui/time.js";
import { electionsQuery } from "../elections/elections-query.js";

const SHOWN = 8;

export function Leaders() {
  const mayRead = useMay("readAll");
  const { data, error, refetch } = useQuery({ ...electionsQuery, enabled: mayRead });
  const items = data?.items ?? [];
  return (
    <Panel
      title="Leaders"
      aside={
        <Link to="/elections" className="text-accent underline underline-offset-2">
          {items.length > SHOWN ? `all ${items.length}` : "terms and shards"}
        </Link>
      }
    >
      {error ? (
        <Failure error={error} retry={() => void refetch()} />
      ) : !data ? (
        <Skeleton lines={3} />
      ) : items.length === 0 ? (
        <p className="px-4 py-3 text-sm text-muted">No elections or singletons.</p>
      ) : (
        <ul>
          {items.slice(0, SHOWN).map(({ name, leader, token, since }) => (
            <li
              key={name}
              className="flex flex-wrap items-center gap-x-3 gap-y-1 border-b px-4 py-2 text-sm last:border-b-0"
            >
              <Link
                to="/leases/$resource"
                params={{ resource: name }}
                className="min-w-0 flex-1 basis-28 truncate font-mono text-xs font-medium hover:underline"
                title={name}
              >
                {name}
              </Link>
              {leader === null ? (
                <span className="text-warn">no leader</span>
              ) : (
                <>
                  <span className="min-w-0 truncate">{leader}</span>
                  <Token token={token || null} />
                  <span className="text-xs text-muted">
                    <TimeText at={since} />
                  </span>
                </>
              )}
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}
