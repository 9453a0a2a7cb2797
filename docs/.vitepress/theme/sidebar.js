// The sidebar, which is the menu on a phone, shows the entry of the page that the reader has opened.

/** Height of the bar that covers the top of the sidebar on wide screens, and some room. */
const COVERED = 80;

/** Scrolls the sidebar, and never the page, if the current entry is out of view. */
export function showCurrentPage() {
  // The sidebar marks the entry after the content of the page is in place.
  requestAnimationFrame(() => {
    const sidebar = document.querySelector(".VPSidebar");
    const entry = sidebar?.querySelector(".VPSidebarItem.is-link.is-active > .item");
    if (!sidebar || !entry) return;
    const frame = sidebar.getBoundingClientRect();
    const { top, bottom } = entry.getBoundingClientRect();
    if (top >= frame.top + COVERED && bottom <= frame.bottom) return;
    sidebar.scrollTop += (top + bottom - frame.top - frame.bottom) / 2;
  });
}
