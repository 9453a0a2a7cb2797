/** The API keys of the tenant: what each may do, until when, and when it was last used. */

import { useQuery } from "@tanstack/react-query";
import { PageHead } from "leasehold-ui";
import { useMay, whoQuery } from "../../data/who.js";
import { Empty, Skeleton } from "../../ui/states.js";
import { KeyList } from "./key-list.js";

export function KeysPage() {
  const { data: who, isPending } = useQuery(whoQuery);
  const mayAdminister = useMay("administer");
  return (
    <>
      <PageHead title="Keys" about="The API keys of this tenant, without their secrets." />
      {isPending ? (
        <Skeleton />
      ) : who && !who.control ? (
        <Empty icon="key" title="This server keeps no keys">
          Keys need PostgreSQL or PGlite. Start the server with a <code>--control</code> database.
        </Empty>
      ) : who && !mayAdminister ? (
        <Empty icon="key" title="Only admins can list the keys">
          You have the role {who.role}.
        </Empty>
      ) : (
        <section aria-label="API keys" className="rounded-xl border bg-surface">
          <KeyList />
        </section>
      )}
    </>
  );
}
