//! Figures over the wire.

use rkube_machinery::json;
use rkube_runtime::api::{ContainerStats, Cpu, FilesystemUsage, Interface, Memory, SandboxStats};

use super::TestServer;

const AT: i64 = 1_600_000_000_000_000;

fn used() -> SandboxStats {
    let memory =
        Memory { working_set_bytes: 100, usage_bytes: 150, rss_bytes: 50, limit_bytes: 1000, ..Memory::default() };
    let container = ContainerStats {
        id: "p-c".into(),
        name: "c".into(),
        at_micros: AT,
        started_micros: AT - 10_000_000,
        cpu: Cpu { usage_core_nanos: 2_500_000_000 },
        memory,
        root: FilesystemUsage { used_bytes: 7, used_inodes: 2 },
        logs: FilesystemUsage { used_bytes: 5, used_inodes: 1 },
    };
    let interface = Interface { name: "eth0".into(), received_bytes: 11, sent_bytes: 12, ..Interface::default() };
    SandboxStats {
        id: "p".into(),
        pod_name: "p".into(),
        pod_namespace: "default".into(),
        pod_uid: "uid-1".into(),
        at_micros: AT,
        cpu: Cpu { usage_core_nanos: 2_600_000_000 },
        memory,
        processes: 3,
        interfaces: vec![interface],
        containers: vec![container],
    }
}

#[tokio::test]
async fn a_summary() {
    let server = TestServer::start().await;
    server.runtime.stats.lock().push(used());
    let (status, text) = server.get_as("reader", "/stats/summary").await;
    assert_eq!(status, 200);
    let summary = json::parse(text.as_bytes()).unwrap();
    let node = summary.get("node");
    assert_eq!(node.str("nodeName"), "node-1");
    assert!(node.get("memory").int("workingSetBytes") > 0 && node.get("fs").int("capacityBytes") > 0);
    let pod = &summary.list("pods")[0];
    assert_eq!(json::to_string(pod.get("podRef")), r#"{"name":"p","namespace":"default","uid":"uid-1"}"#);
    let cpu = r#"{"time":"2020-09-13T12:26:40Z","usageNanoCores":250000000,"usageCoreNanoSeconds":2500000000}"#;
    let container = &pod.list("containers")[0];
    assert_eq!(json::to_string(container.get("cpu")), cpu);
    assert_eq!(container.str("startTime"), "2020-09-13T12:26:30Z");
    assert_eq!(container.get("memory").int("availableBytes"), 900);
    assert_eq!((container.get("rootfs").int("usedBytes"), container.get("logs").int("inodesUsed")), (7, 1));
    assert_eq!((pod.get("ephemeral-storage").int("usedBytes"), pod.get("process_stats").int("process_count")), (12, 3));
    assert_eq!((pod.get("network").str("name"), pod.get("network").int("rxBytes")), ("eth0", 11));
    let (_, text) = server.get_as("reader", "/stats/summary?only_cpu_and_memory=true").await;
    assert!(!text.contains("rootfs") && !text.contains("rxBytes") && text.contains("workingSetBytes"));
}

#[tokio::test]
async fn metrics() {
    let server = TestServer::start().await;
    server.runtime.stats.lock().push(used());
    let (_, text) = server.get_as("reader", "/metrics/resource").await;
    let lines = [
        r#"container_cpu_usage_seconds_total{container="c",namespace="default",pod="p"} 2.5 1600000000000"#,
        r#"container_memory_working_set_bytes{container="c",namespace="default",pod="p"} 100 1600000000000"#,
        r#"container_start_time_seconds{container="c",namespace="default",pod="p"} 1599999990"#,
        r#"pod_cpu_usage_seconds_total{namespace="default",pod="p"} 2.6 1600000000000"#,
        r#"pod_memory_working_set_bytes{namespace="default",pod="p"} 100 1600000000000"#,
        "resource_scrape_error 0",
    ];
    for line in lines {
        assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
    }
    let (_, text) = server.get_as("reader", "/metrics/cadvisor").await;
    let line = r#"container_cpu_usage_seconds_total{container="c",cpu="total",id="p-c",namespace="default",pod="p"} 2.5 1600000000000"#;
    assert!(text.lines().any(|it| it == line), "{text}");
    let line = r#"container_network_receive_bytes_total{id="p",interface="eth0",namespace="default",pod="p"} 11 1600000000000"#;
    assert!(text.lines().any(|it| it == line), "{text}");
    let (_, text) = server.get_as("reader", "/metrics").await;
    assert!(
        text.contains("kubelet_running_pods 1\n") && text.contains(r#"kubelet_node_name{node="node-1"} 1"#),
        "{text}"
    );
    assert_eq!(server.get_as("reader", "/metrics/probes").await, (200, String::new()));
}
