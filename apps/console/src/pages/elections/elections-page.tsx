/** Elections and singletons with their leaders and gaps, and the members of sharded work. */

import { useQuery } from "@tanstack/react-query";
import { PageHead } from "leasehold-ui";
import { Empty, Failure, Skeleton } from "../../ui/states.js";
import { ElectionPanel } from "./election-panel.js";
import { electionsQuery } from "./elections-query.js";
import { ShardPanel } from "./shard-panel.js";

export function ElectionsPage() {
  const { data, error, refetch, dataUpdatedAt: answeredAtMs } = useQuery(electionsQuery);
  return (
    <>
      <PageHead title="Elections" about="Leaders, singletons and shards, with their terms." />
      {error && !data ? (
        <Failure error={error} retry={() => void refetch()} />
      ) : !data ? (
        <Skeleton lines={8} />
      ) : data.items.length === 0 && data.shards.length === 0 ? (
        <Empty icon="election" title="No elections or singletons">
          Programs take part with <code className="font-mono">elector()</code>,{" "}
          <code className="font-mono">singleton()</code> or{" "}
          <code className="font-mono">shards()</code>.
        </Empty>
      ) : (
        <div className="grid grid-cols-[minmax(0,1fr)] gap-5">
          {(!data.complete || !data.history) && (
            <p className="text-sm text-muted">
              {!data.complete &&
                "The list is incomplete: there are more leases than the server scanned. "}
              {!data.history &&
                "This server keeps no history, so only the last term of each is known."}
            </p>
          )}
          {data.items.map((election) => (
            <ElectionPanel key={election.name} {...{ election, answeredAtMs }} />
          ))}
          {data.shards.map((group) => (
            <ShardPanel key={group.name} {...{ group, answeredAtMs }} />
          ))}
        </div>
      )}
    </>
  );
}
