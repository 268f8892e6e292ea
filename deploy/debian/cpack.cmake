# Read by cpack: what depends on the version that is packed, which `cpack -D CPACK_PACKAGE_VERSION=` may change.
set(CPACK_DEBIAN_CLIENT-DEV_PACKAGE_DEPENDS "scalewatch-client (= ${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
