//! Who a process is, what it may do, and what it sees.

use rkube_runtime::api::{
    Confinement, ContainerConfig, Device, Mount, NamespaceMode, Propagation, Runtime, SandboxConfig, Supplement,
};

use crate::world::World;

crate::tests![
    users_and_groups,
    capabilities,
    system_calls,
    paths_are_masked,
    volumes,
    mounts_travel,
    links_do_not_lead_out,
    devices,
    namespaces,
    privileged,
];

fn with(mut config: ContainerConfig, change: impl FnOnce(&mut ContainerConfig)) -> ContainerConfig {
    change(&mut config);
    config
}

async fn users_and_groups() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    let (status, log) = world
        .run(
            &sandbox,
            with(world.config(&["status", "Uid"]), |config| {
                config.security.user_name = "app".to_owned();
                config.security.supplemental_groups = vec![60000];
            }),
        )
        .await;
    assert_eq!(log, "Uid: 1000 1000 1000 1000");
    assert_eq!(status.user, Some((1000, 1001, vec![1001, 50000, 60000])));
    let strict = with(world.config(&["status", "Groups"]), |config| {
        config.security.user = Some(1000);
        config.security.group = Some(7);
        config.security.supplement = Supplement::Strict;
        config.security.supplemental_groups = vec![60000];
    });
    assert_eq!(world.run(&sandbox, strict).await.1.trim_end(), "Groups: 7 60000");
    let home = with(world.config(&["environment"]), |config| config.security.user = Some(1000));
    assert!(world.run(&sandbox, home).await.1.contains("HOME=/srv/app"));
    let directory = with(world.config(&["directory"]), |config| config.working_directory = "/made/for/it".to_owned());
    assert_eq!(world.run(&sandbox, directory).await.1, "/made/for/it");
    let unknown = with(world.config(&["echo"]), |config| config.security.user_name = "nobody".to_owned());
    let id = world.runtime.create_container(&sandbox, unknown).await.unwrap();
    let error = world.runtime.start_container(&id).await.unwrap_err();
    assert!(error.to_string().contains("unable to find user nobody: no matching entries in passwd file"), "{error}");
    // A process without privileges can open its own output.
    let output = with(world.config(&["write", "/dev/stdout", "written by its name\n"]), |config| {
        config.security.user = Some(1000)
    });
    assert!(world.run(&sandbox, output).await.1.starts_with("written by its name"));
    world.finish().await;
}

async fn capabilities() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    let bits = |log: String| u64::from_str_radix(log.rsplit(' ').next().unwrap(), 16).unwrap();
    assert_eq!(bits(world.output(&sandbox, &["status", "CapEff"]).await), 0xa804_25fb);
    assert_eq!(bits(world.output(&sandbox, &["status", "CapBnd"]).await), 0xa804_25fb);
    let changed = with(world.config(&["status", "CapEff"]), |config| {
        config.security.capabilities.drop = vec!["ALL".to_owned()];
        // The second one may not be there to be given: that is no reason to fail.
        config.security.capabilities.add = vec!["NET_ADMIN".to_owned(), "SYS_RESOURCE".to_owned()];
    });
    let held = bits(world.run(&sandbox, changed).await.1);
    assert_eq!(held & !(1 << 24), 1 << 12);
    let user = with(world.config(&["status", "CapEff"]), |config| config.security.user = Some(1000));
    assert_eq!(bits(world.run(&sandbox, user).await.1), 0);
    let promised = with(world.config(&["status", "NoNewPrivs"]), |config| config.security.no_new_privileges = true);
    assert_eq!(world.run(&sandbox, promised).await.1, "NoNewPrivs: 1");
    assert_eq!(world.output(&sandbox, &["status", "NoNewPrivs"]).await, "NoNewPrivs: 0");
    let unknown = with(world.config(&["echo"]), |config| config.security.capabilities.add = vec!["NOPE".to_owned()]);
    assert!(world.runtime.create_container(&sandbox, unknown).await.is_err());
    world.finish().await;
}

async fn system_calls() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    let call = async |name: &str, change: &dyn Fn(&mut ContainerConfig)| {
        world.run(&sandbox, with(world.config(&["call", name]), change)).await.1
    };
    let default: &dyn Fn(&mut ContainerConfig) = &|config| config.security.seccomp = Confinement::RuntimeDefault;
    assert_eq!(call("getpid", default).await, "done");
    assert_eq!(call("unshare", default).await, "Operation not permitted (os error 1)");
    assert_eq!(call("clone3", default).await, "Function not implemented (os error 38)");
    assert_eq!(call("future", default).await, "Function not implemented (os error 38)");
    assert_eq!(call("unshare", &|_| {}).await, "done");
    let promised: &dyn Fn(&mut ContainerConfig) = &|config| {
        config.security.seccomp = Confinement::RuntimeDefault;
        config.security.no_new_privileges = true;
        config.security.user = Some(1000);
    };
    assert_eq!(call("unshare", promised).await, "Operation not permitted (os error 1)");
    let profile = world.directory.path().join("profile.json");
    let text = r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["getpid"],"action":"SCMP_ACT_ERRNO","errnoRet":13}]}"#;
    std::fs::write(&profile, text).unwrap();
    let own = |config: &mut ContainerConfig| {
        config.security.seccomp = Confinement::Localhost(profile.to_str().unwrap().to_owned());
    };
    assert_eq!(call("getpid", &own).await, "Permission denied (os error 13)");
    // Also who enters it later.
    let id = world.start(&sandbox, with(world.config(&["wait"]), default)).await;
    let command = vec!["/tool".to_owned(), "call".to_owned(), "unshare".to_owned()];
    let output = world.runtime.exec_sync(&id, command, std::time::Duration::ZERO).await.unwrap();
    assert_eq!(&output.stdout[..], b"Operation not permitted (os error 1)\n");
    world.finish().await;
}

async fn paths_are_masked() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    let masked = |arguments: &[&str]| {
        with(world.config(arguments), |config| {
            config.security.masked_paths =
                vec!["/proc/cpuinfo".to_owned(), "/proc/bus".to_owned(), "/proc/nope".to_owned()];
            config.security.readonly_paths = vec!["/proc/sys".to_owned()];
            config.security.read_only_root = true;
        })
    };
    assert_eq!(world.run(&sandbox, masked(&["cat", "/proc/cpuinfo"])).await.1, "");
    assert_eq!(world.run(&sandbox, masked(&["list", "/proc/bus"])).await.1, "");
    let refused = "error: Read-only file system (os error 30)";
    assert_eq!(world.run(&sandbox, masked(&["write", "/proc/sys/kernel/hostname", "x"])).await.1, refused);
    assert_eq!(world.run(&sandbox, masked(&["write", "/file", "x"])).await.1, refused);
    assert_eq!(world.run(&sandbox, masked(&["write", "/dev/shm/file", "x"])).await.1, "written");
    assert_eq!(world.output(&sandbox, &["write", "/file", "x"]).await, "written");
    assert_eq!(world.output(&sandbox, &["write", "/sys/kernel/mm/ksm/run", "0"]).await, refused);
    assert_eq!(world.output(&sandbox, &["write", "/sys/fs/cgroup/x", "0"]).await, refused);
    world.finish().await;
}

async fn volumes() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    let volume = world.directory.path().join("volume");
    std::fs::create_dir_all(&volume).unwrap();
    std::fs::write(volume.join("file"), "from the host").unwrap();
    let mount = |change: &dyn Fn(&mut Mount)| {
        let mut mount =
            Mount { host_path: volume.clone(), container_path: "/deep/volume".to_owned(), ..Default::default() };
        change(&mut mount);
        mount
    };
    let run = async |arguments: &[&str], mount: Mount| {
        world.run(&sandbox, with(world.config(arguments), |config| config.mounts = vec![mount])).await.1
    };
    assert_eq!(run(&["cat", "/deep/volume/file"], mount(&|_| {})).await, "from the host");
    assert_eq!(run(&["write", "/deep/volume/new", "x"], mount(&|_| {})).await, "written");
    assert_eq!(std::fs::read_to_string(volume.join("new")).unwrap(), "x");
    for change in [(|mount| mount.read_only = true) as fn(&mut Mount), |mount| mount.recursive_read_only = true] {
        let said = run(&["write", "/deep/volume/new", "x"], mount(&change)).await;
        assert_eq!(said, "error: Read-only file system (os error 30)");
    }
    let file = mount(&|mount| {
        mount.host_path = volume.join("file");
        mount.container_path = "/etc/hosts".to_owned();
    });
    assert_eq!(run(&["cat", "/etc/hosts"], file).await, "from the host");
    let missing = mount(&|mount| mount.host_path = volume.join("nope"));
    let config = with(world.config(&["echo"]), |config| config.mounts = vec![missing]);
    assert!(world.runtime.create_container(&sandbox, config).await.is_err());
    // Where the host's mount is private, nothing could travel: that is said.
    let shared = mount(&|mount| mount.propagation = Propagation::Bidirectional);
    let config = with(world.config(&["echo"]), |config| config.mounts = vec![shared]);
    let id = world.runtime.create_container(&sandbox, config).await.unwrap();
    if let Err(error) = world.runtime.start_container(&id).await {
        assert!(error.to_string().contains("but it is not a shared mount"), "{error}");
    }
    // Memory is shared between the containers of a pod.
    assert_eq!(world.output(&sandbox, &["write", "/dev/shm/shared", "between us"]).await, "written");
    assert_eq!(world.output(&sandbox, &["cat", "/dev/shm/shared"]).await, "between us");
    world.finish().await;
}

/// A mount below the test's directory, gone with it.
struct Mounted(std::path::PathBuf);

impl Mounted {
    fn new(path: std::path::PathBuf) -> Self {
        std::fs::create_dir_all(&path).unwrap();
        let done = std::process::Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&path).status().unwrap();
        assert!(done.success());
        Self(path)
    }

    fn share(&self) {
        assert!(std::process::Command::new("mount").arg("--make-shared").arg(&self.0).status().unwrap().success());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        std::process::Command::new("umount").arg("-l").arg(&self.0).status().unwrap();
    }
}

async fn mounts_travel() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    let outer = Mounted::new(world.directory.path().join("outer"));
    outer.share();
    let volume = |propagation, read_only| {
        let (host_path, container_path) = (outer.0.clone(), "/volume".to_owned());
        let recursive_read_only = read_only;
        Mount { host_path, container_path, propagation, recursive_read_only, ..Default::default() }
    };
    let start = async |propagation| {
        let config = with(world.config(&["wait"]), |config| config.mounts = vec![volume(propagation, false)]);
        world.start(&sandbox, config).await
    };
    let private = start(Propagation::Private).await;
    let slave = start(Propagation::HostToContainer).await;
    let shared = start(Propagation::Bidirectional).await;
    let inner = Mounted::new(outer.0.join("inner"));
    std::fs::write(inner.0.join("file"), "mounted later").unwrap();
    let read = async |id: &str| {
        let command = vec!["/tool".to_owned(), "cat".to_owned(), "/volume/inner/file".to_owned()];
        let output = world.runtime.exec_sync(id, command, std::time::Duration::ZERO).await.unwrap();
        String::from_utf8(output.stdout.to_vec()).unwrap()
    };
    assert_eq!(read(&private).await, "error: No such file or directory (os error 2)\n");
    assert_eq!(read(&slave).await, "mounted later");
    assert_eq!(read(&shared).await, "mounted later");
    // What is mounted below is read-only, too, where that is asked for.
    for (recursive, said) in [(true, "error: Read-only file system (os error 30)"), (false, "written")] {
        let mut mount = volume(Propagation::Private, recursive);
        mount.read_only = true;
        let config = with(world.config(&["write", "/volume/inner/new", "x"]), |config| config.mounts = vec![mount]);
        assert_eq!(world.run(&sandbox, config).await.1, said);
    }
    drop((inner, outer));
    world.finish().await;
}

async fn links_do_not_lead_out() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    let image = world.directory.path().join("image");
    let outside = world.directory.path().join("outside");
    std::fs::create_dir_all(&outside).unwrap();
    let volume = world.directory.path().join("volume");
    std::fs::create_dir_all(&volume).unwrap();
    std::fs::write(volume.join("file"), "in the volume").unwrap();
    std::os::unix::fs::symlink(&outside, image.join("absolute")).unwrap();
    std::os::unix::fs::symlink("../../../../../../../../..", image.join("up")).unwrap();
    for target in ["/absolute/x", "/up/tmp/y"] {
        let mount = Mount { host_path: volume.clone(), container_path: target.to_owned(), ..Default::default() };
        let config = with(world.config(&["cat", &format!("{target}/file")]), |config| config.mounts = vec![mount]);
        assert_eq!(world.run(&sandbox, config).await.1, "in the volume");
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    assert!(!std::path::Path::new("/tmp/y").exists());
    // What the kernel's own files are seen by is no link.
    std::os::unix::fs::symlink("/etc", image.join("proc")).unwrap();
    let id = world.runtime.create_container(&sandbox, world.config(&["echo"])).await.unwrap();
    let error = world.runtime.start_container(&id).await.unwrap_err();
    assert!(error.to_string().contains("error mounting \"proc\" to rootfs at \"/proc\""), "{error}");
    std::fs::remove_file(image.join("proc")).unwrap();
    world.finish().await;
}

async fn devices() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    assert_eq!(world.output(&sandbox, &["cat", "/dev/null"]).await, "");
    // Whoever makes a file for a device that was not given cannot open it.
    let device = |path: &str| Device {
        host_path: "/dev/kmsg".into(),
        container_path: path.to_owned(),
        permissions: "r".to_owned(),
    };
    let config = with(world.config(&["list", "/dev"]), |config| config.devices = vec![device("/dev/given")]);
    assert!(world.run(&sandbox, config).await.1.contains(" given "));
    let wrong =
        Device { host_path: "/etc/passwd".into(), container_path: "/dev/x".to_owned(), permissions: String::new() };
    let config = with(world.config(&["echo"]), |config| config.devices = vec![wrong]);
    let id = world.runtime.create_container(&sandbox, config).await.unwrap();
    assert!(world.runtime.start_container(&id).await.unwrap_err().to_string().contains("not a device node"));
    world.finish().await;
}

async fn namespaces() {
    let world = World::new().await;
    // A shared namespace of process ids: the pause process is the first one in it.
    let mut config = world.sandbox_config("shared");
    config.namespaces.pid = NamespaceMode::Pod;
    config.sysctls = [("net.ipv4.ip_unprivileged_port_start".to_owned(), "81".to_owned())].into();
    let shared = world.runtime.run_sandbox(config).await.unwrap();
    let in_pod =
        |arguments: &[&str]| with(world.config(arguments), |config| config.namespaces.pid = NamespaceMode::Pod);
    let one = world.start(&shared, in_pod(&["wait"])).await;
    assert_eq!(world.run(&shared, in_pod(&["cat", "/proc/1/comm"])).await.1, "pause");
    assert_eq!(world.output(&shared, &["cat", "/proc/sys/net/ipv4/ip_unprivileged_port_start"]).await, "81");
    // Whoever looks at another container sees its processes.
    let target = with(world.config(&["cat", "/proc/2/cmdline"]), |config| {
        config.namespaces.pid = NamespaceMode::Target;
        config.target = Some(one.clone());
    });
    assert!(world.run(&shared, target).await.1.starts_with("/tool\0wait"));
    // What a container leaves behind goes with it.
    let (status, _) = world.run(&shared, in_pod(&["orphan"])).await;
    assert_eq!(status.exit_code, 0);
    // The host's.
    let mut config: SandboxConfig = world.sandbox_config("host");
    config.namespaces.network = NamespaceMode::Node;
    config.namespaces.pid = NamespaceMode::Node;
    config.namespaces.ipc = NamespaceMode::Node;
    let host = world.runtime.run_sandbox(config).await.unwrap();
    let on_host =
        |arguments: &[&str]| with(world.config(arguments), |config| config.namespaces.pid = NamespaceMode::Node);
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(world.run(&host, on_host(&["cat", "/proc/sys/kernel/hostname"])).await.1, name.trim());
    let comm = std::fs::read_to_string("/proc/1/comm").unwrap();
    assert_eq!(world.run(&host, on_host(&["cat", "/proc/1/comm"])).await.1, comm.trim());
    let (status, _) = world.run(&host, on_host(&["orphan"])).await;
    assert_eq!(status.exit_code, 0);
    let mut config = world.sandbox_config("other");
    config.runtime_handler = "nope".to_owned();
    let error = world.runtime.run_sandbox(config).await.unwrap_err();
    assert_eq!(error.to_string(), "no runtime for \"nope\" is configured");
    world.finish().await;
}

async fn privileged() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    let privileged = |arguments: &[&str]| {
        with(world.config(arguments), |config| {
            config.security.privileged = true;
            config.security.seccomp = Confinement::RuntimeDefault;
        })
    };
    assert!(world.run(&sandbox, privileged(&["list", "/dev"])).await.1.contains("kmsg"));
    assert_eq!(world.run(&sandbox, privileged(&["call", "unshare"])).await.1, "done");
    world.finish().await;
}
