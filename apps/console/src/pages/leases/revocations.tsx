/** The revocations that wait for a second operator, and the dialog that confirms one. */

import { queryOptions, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { RequestedRevocation, RequestedRevocations } from "leasehold/internal/wire";
import { Button, Icon, Token } from "leasehold-ui";
import { useState } from "react";
import { api, get } from "../../data/api.js";
import { useMay, whoQuery } from "../../data/who.js";
import { ReasonDialog } from "../../ui/reason-dialog.js";
import { TimeText } from "../../ui/time.js";

const revocationsQuery = queryOptions({
  queryKey: ["revocations"],
  queryFn: ({ signal }) => get<RequestedRevocations>("/v1/revocations", { signal }),
});

/** Renders nothing if none waits. */
export function Revocations({ resource }: { readonly resource?: string }) {
  const who = useQuery(whoQuery).data;
  const mayOperate = useMay("operate");
  const enabled = (who?.twoPersonRevoke ?? false) && mayOperate;
  const { data } = useQuery({ ...revocationsQuery, enabled });
  const [confirming, setConfirming] = useState<RequestedRevocation>();
  const shown = (data?.items ?? []).filter(
    (one) => resource === undefined || one.resource === resource,
  );
  return (
    <>
      {shown.length > 0 && (
        <ul aria-label="Revocations that need a second person" className="mb-4 grid gap-2">
          {shown.map((revocation) => (
            <Waiting
              key={revocation.id}
              revocation={revocation}
              isOwn={revocation.requestedBy === who?.actor}
              onConfirm={() => setConfirming(revocation)}
            />
          ))}
        </ul>
      )}
      {confirming && (
        <ConfirmDialog revocation={confirming} onClose={() => setConfirming(undefined)} />
      )}
    </>
  );
}

function Waiting({
  revocation,
  isOwn,
  onConfirm,
}: {
  readonly revocation: RequestedRevocation;
  readonly isOwn: boolean;
  readonly onConfirm: () => void;
}) {
  const { resource, holder, token, free, requestedBy, claimedActor, reason, confirmBefore } =
    revocation;
  const by = claimedActor === null ? requestedBy : `${requestedBy}, as ${claimedActor}`;
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-2 rounded-xl bg-warn-soft px-4 py-2.5 text-sm">
      <span className="text-warn">
        <Icon name="shield" />
      </span>
      <p className="min-w-0 flex-1 basis-64 break-words">
        Revoke{" "}
        <Link
          to="/leases/$resource"
          params={{ resource }}
          className="font-mono font-medium underline underline-offset-2"
        >
          {resource}
        </Link>{" "}
        of {holder} <Token token={token} />, free {free === "now" ? "now" : "at its expiry"}: “
        {reason}”{" "}
        <span className="text-xs text-muted">
          ({by}; can be confirmed until <TimeText at={confirmBefore} />)
        </span>
      </p>
      {isOwn ? (
        <span className="text-xs text-muted">Your request: another person must confirm it</span>
      ) : (
        <Button small onClick={onConfirm}>
          Confirm {resource}…
        </Button>
      )}
    </li>
  );
}

function ConfirmDialog({
  revocation: { id, resource, holder, token, free, requestedBy },
  onClose,
}: {
  readonly revocation: RequestedRevocation;
  readonly onClose: () => void;
}) {
  const when =
    free === "now"
      ? "The next contender can acquire it at once, while the holder may still be working."
      : "It stays blocked until it would have expired.";
  return (
    <ReasonDialog
      name={`the revocation of ${resource}`}
      texts={{
        verb: "Confirm",
        done: "confirmed, and the lease has ended",
        about: `${requestedBy} has requested to end the lease of ${holder}, token ${token}. ${when} The audit records you and your reason.`,
      }}
      isDangerous
      changes={["revocations", "resource", "leases"]}
      act={async (reason) => {
        await api("POST", `/v1/revocations/${id}/confirm`, { body: { token, free, reason } });
      }}
      onClose={onClose}
    />
  );
}
