/** Placeholders for missing data: loading, empty, or failed. */
import { Button, Icon, type IconName } from "leasehold-ui";
import type { ReactNode } from "react";
import { ApiError } from "../data/api.js";

export function Empty({
  icon = "search",
  title,
  children,
}: {
  readonly icon?: IconName;
  readonly title: string;
  readonly children?: ReactNode;
}) {
  return (
    <div className="grid justify-items-center gap-2 px-6 py-14 text-center">
      <span className="rounded-full bg-sunken p-3 text-muted">
        <Icon name={icon} size={20} />
      </span>
      <p className="font-medium">{title}</p>
      {children && <div className="max-w-prose text-sm text-muted">{children}</div>}
    </div>
  );
}

export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  const { code, message } =
    error instanceof ApiError ? error : { code: "ERROR", message: String(error) };
  return (
    <div role="alert" className="grid justify-items-center gap-2 px-6 py-12 text-center">
      <span className="rounded-full bg-danger-soft p-3 text-danger">
        <Icon name="warning" size={20} />
      </span>
      <p className="font-medium">{message}</p>
      <p className="font-mono text-xs text-muted">{code}</p>
      {retry && (
        <Button small onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  );
}

export function Skeleton({ lines = 6 }: { readonly lines?: number }) {
  return (
    <div role="status" aria-label="Loading" className="grid gap-3 p-4">
      {Array.from({ length: lines }, (_, index) => (
        <div
          key={index}
          className="h-5 animate-pulse rounded bg-sunken"
          style={{ width: `${92 - ((index * 17) % 40)}%` }}
        />
      ))}
    </div>
  );
}
