/** The end of a paginated list. It loads the next page when it scrolls into view. */
import { Button } from "leasehold-ui";
import { useEffect, useRef } from "react";

interface Props {
  /** The result of the list's `useInfiniteQuery`. */
  readonly pages: {
    readonly hasNextPage: boolean;
    readonly isFetchingNextPage: boolean;
    readonly fetchNextPage: () => Promise<unknown>;
  };
  /** Whether to load the next page without a click. Default: true. */
  readonly automatic?: boolean;
  readonly label?: string;
}

export function MoreRows({ pages, automatic = true, label = "Show more" }: Props) {
  const end = useRef<HTMLDivElement>(null);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = pages;
  const isWatching = automatic && hasNextPage && !isFetchingNextPage;
  useEffect(() => {
    const element = end.current;
    if (!isWatching || !element) return;
    const watcher = new IntersectionObserver(
      (entries) => {
        if (entries.some(({ isIntersecting }) => isIntersecting)) void fetchNextPage();
      },
      { rootMargin: "400px" },
    );
    watcher.observe(element);
    return () => watcher.disconnect();
  }, [isWatching, fetchNextPage]);
  if (!hasNextPage) return null;
  return (
    <div ref={end} className="grid place-items-center p-3">
      <Button small disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
        {isFetchingNextPage ? "Loading…" : label}
      </Button>
    </div>
  );
}
