// The table of pages: path, module, texts, icon, and the shortcut key after `g`.
// A page is a module below `pages/` that exports `open(root, place)`.

export const PAGES = [
  { name: "overview", path: "/", icon: "overview", key: "o", group: "work" },
  { name: "jobs", path: "/jobs", icon: "jobs", key: "j", group: "work" },
  { name: "submit", path: "/submit", icon: "submit", key: "s", group: "work" },
  { name: "arrays", path: "/arrays", icon: "arrays", key: "a", group: "work" },
  { name: "batches", path: "/batches", icon: "batches", key: "b", group: "work" },
  { name: "dead", path: "/dead", icon: "letters", key: "d", group: "work" },
  { name: "workers", path: "/workers", icon: "workers", key: "w", group: "grid" },
  { name: "queues", path: "/queues", icon: "queues", key: "q", group: "grid" },
  { name: "cluster", path: "/cluster", icon: "cluster", key: "c", group: "grid" },
  { name: "files", path: "/files", icon: "files", key: "f", group: "grid" },
  { name: "history", path: "/history", icon: "history", key: "h", group: "records" },
  { name: "access", path: "/access", icon: "access", key: "x", group: "records" },
  { name: "login", path: "/login" },
  { name: "job", path: "/jobs/:id", below: "jobs" },
  { name: "array", path: "/arrays/:id", below: "arrays" },
  { name: "batch", path: "/batches/:id", below: "batches" },
];

export const GROUPS = ["work", "grid", "records"];

/** Load the module of a page, on first use. */
export const load = (page) => import(`./pages/${page.name}.js`);
